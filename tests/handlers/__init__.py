"""The Lambda handlers, against the HyperPod simulator."""
