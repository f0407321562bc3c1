"""What a deployment does to the resources that CloudFormation itself manages, and to the stacks around them."""
