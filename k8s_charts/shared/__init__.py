"""What several charts are made of: names, namespaces, flows, limits, tolerations."""
