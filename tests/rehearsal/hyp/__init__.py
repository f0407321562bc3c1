"""The real client of HyperPod, `hyp`, against the embedded account and its control plane."""
