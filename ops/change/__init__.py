"""Commands that change what runs: fewer nodes, new software, rollouts, image builds, KubeRay's kinds."""
