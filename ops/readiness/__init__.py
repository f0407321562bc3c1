"""Read the state of clusters, nodes and workloads, and say what is not ready and why."""
