"""Constructs that several stacks use: the base stack, Helm releases, manifests, IRSA, waiting providers."""
