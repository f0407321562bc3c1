"""Tests of the judge of CloudFormation's own resources."""
