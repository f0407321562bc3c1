"""Renders manifests, images and charts, and compares two states of the repository."""
