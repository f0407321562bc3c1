"""Looks at clusters, nodes and workloads, and says what is not ready and why."""
