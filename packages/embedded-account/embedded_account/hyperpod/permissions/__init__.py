"""Which permissions a call of HyperPod needs, and whether the caller has them."""
