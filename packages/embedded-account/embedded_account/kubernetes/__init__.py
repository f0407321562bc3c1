"""A real Kubernetes control plane on this machine: Kubernetes' own binaries, kwok as the kubelets, real KubeRay."""
