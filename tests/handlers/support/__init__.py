"""Helpers of the handlers' tests: a double of CDK's framework, CloudFormation, sequences, and judges of answers."""
