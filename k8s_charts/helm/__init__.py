"""The Helm releases: their charts, values and images."""
