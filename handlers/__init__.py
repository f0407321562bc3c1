"""Code that runs in Lambda functions: boto3 and the standard library only, nothing of this project."""
