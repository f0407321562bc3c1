"""Copy an environment's images and charts to a private registry."""
