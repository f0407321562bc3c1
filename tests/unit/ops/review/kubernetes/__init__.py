"""Tests of the review of Kubernetes objects and Helm releases."""
