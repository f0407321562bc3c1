"""Find what is dangerous about changed resources of CloudFormation, one sort of danger in each module."""
