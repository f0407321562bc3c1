"""Runs a short all-reduce over all workers of a RayCluster, and evaluates it."""
