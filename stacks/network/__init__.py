"""The VPC, new or existing: subnets, endpoints, flow logs, the shared security group."""
