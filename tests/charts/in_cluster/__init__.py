"""Tests of Prometheus and Grafana in the cluster."""
