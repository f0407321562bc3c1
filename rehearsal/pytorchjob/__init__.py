"""What a PyTorchJob needs in a rehearsal: Kubeflow's real operator, and a stand-in for HyperPod's auto-resume."""
