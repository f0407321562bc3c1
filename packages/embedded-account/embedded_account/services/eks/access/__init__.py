"""Access to EKS clusters: access entries, their access policies, and pod identity associations."""
