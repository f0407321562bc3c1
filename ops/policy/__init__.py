"""Least-privilege IAM policies of the people who deploy, operate, use, watch and administer one environment."""
