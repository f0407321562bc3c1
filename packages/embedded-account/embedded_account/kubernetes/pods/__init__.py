"""Pods whose programs really run on this machine, with the kubelet that runs them."""
