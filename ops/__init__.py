"""The operator's command line: look before a deployment, watch after it."""
