"""The EKS cluster, new or existing: add-ons, system nodes, access."""
