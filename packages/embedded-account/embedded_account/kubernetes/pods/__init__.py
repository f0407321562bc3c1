"""Run pods whose programs really run on this machine, with the kubelet for them."""
