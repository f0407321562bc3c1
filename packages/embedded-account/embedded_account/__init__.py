"""An embedded AWS account with a real Kubernetes control plane, to rehearse CDK deployments against."""
