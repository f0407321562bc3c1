"""Runs a short all-reduce over all workers of a RayCluster, and judges it."""
