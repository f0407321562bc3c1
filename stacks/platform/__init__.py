"""What every RayCluster needs in Kubernetes: the FSx CSI driver, KubeRay, namespaces."""
