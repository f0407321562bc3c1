"""The life of nodes: provisioning, the checks before they join, replacement, shut-down."""
