"""The Job that builds the Ray image in the cluster, and its build context."""
