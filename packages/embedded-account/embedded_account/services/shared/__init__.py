"""The base classes of CloudFormation's resource models and of service errors, shared by the services."""
