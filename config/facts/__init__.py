"""What AWS, HyperPod, Kubernetes and the pinned charts offer: tables, and the functions that read them."""
