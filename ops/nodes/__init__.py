"""List HyperPod's nodes, open shells on them, and drain, reboot, replace or check one of them."""
