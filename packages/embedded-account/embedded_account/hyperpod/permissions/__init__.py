"""The permissions that each HyperPod call requires, and the check that a caller has them."""
