"""Lifecycle scripts of the nodes of a Slurm cluster."""
