"""Clusters that Slurm orchestrates instead of EKS."""
