"""Programs that show the state of runs and nodes to Prometheus."""
