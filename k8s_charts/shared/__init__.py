"""What several charts use: names, namespaces, flows, limits, tolerations."""
