"""IAM and STS: who may do what, who trusts whom, and CloudFormation's models."""
