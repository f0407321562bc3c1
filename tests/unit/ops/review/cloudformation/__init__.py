"""Tests of the review of CloudFormation's own resources."""
