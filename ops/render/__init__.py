"""Render manifests, list images, fetch charts, and compare two states of the repository."""
