"""What several stacks are made of: the base stack, Helm releases, manifests, IRSA, waiting providers."""
