"""Prometheus and Grafana in the cluster, with their dashboards and alerts."""
