"""The lifecycle of nodes: provisioning, checks before they join, replacement and shutdown."""
