"""The file system as Kubernetes sees it: storage class, volumes, and the directory's owner."""
