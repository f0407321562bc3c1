"""The file system in Kubernetes: storage class, volumes, and the owner of Ray's directory."""
