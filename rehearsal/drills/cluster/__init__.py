"""Context of the Kubernetes drills: a control plane, the real KubeRay, the reaper, the environment's objects."""
