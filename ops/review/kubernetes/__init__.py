"""Review Kubernetes objects, Helm values and charts of two assemblies."""
