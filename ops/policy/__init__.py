"""Least-privilege IAM policies of the people who deploy, operate, use and administer one environment."""
