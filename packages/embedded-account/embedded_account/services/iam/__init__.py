"""IAM and STS: permissions, trust policies, role sessions, and CloudFormation's models."""
