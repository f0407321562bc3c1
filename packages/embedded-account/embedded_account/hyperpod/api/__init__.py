"""HyperPod's API: its operations, the listings, and the validation of requests against the service model."""
