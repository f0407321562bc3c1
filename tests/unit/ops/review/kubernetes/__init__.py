"""Tests of the review's judge of Kubernetes objects and Helm releases."""
