"""The HyperPod cluster, its custom resource, execution role and lifecycle scripts."""
