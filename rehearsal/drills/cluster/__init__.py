"""Run drills on Kubernetes: a control plane, the real KubeRay, the reaper, the environment's objects."""
