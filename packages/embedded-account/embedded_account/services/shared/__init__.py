"""What the services share: base classes of CloudFormation's resource models, and refusals."""
