"""Changes of a deployed environment: fewer nodes, new software, rollouts, image builds, KubeRay's CRDs."""
