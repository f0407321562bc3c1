"""Rehearse a whole deployment on one machine: the real CDK CLI, an embedded AWS account, real Kubernetes."""
