"""The RayClusters: pods, autoscaler, priority, and the hash of what makes a pod."""
