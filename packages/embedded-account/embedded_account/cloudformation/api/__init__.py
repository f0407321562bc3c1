"""CloudFormation's API: requests, answers and error codes."""
