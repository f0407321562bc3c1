"""The add-on of HyperPod's observability with its Prometheus workspace, and a workspace of Amazon Managed Grafana."""
