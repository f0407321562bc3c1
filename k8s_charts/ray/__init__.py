"""The RayClusters: pods, autoscaler, priority, and the hash of a pod's template."""
