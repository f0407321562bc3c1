"""HyperPod's API: operations, validation, rules, and the shapes of answers."""
