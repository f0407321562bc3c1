"""Runs that an operator carries out: KubeRay's RayJobs and Kubeflow's PyTorchJobs."""
