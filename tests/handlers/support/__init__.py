"""What the tests of the cluster's handlers run them with: CDK's framework, CloudFormation, sequences, judges."""
