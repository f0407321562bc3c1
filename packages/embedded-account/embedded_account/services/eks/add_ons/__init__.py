"""The objects that stand in for EKS add-ons, and the configuration that an add-on accepts."""
