"""Reads YAML strictly, and says of a refused value where it stands and what is allowed."""
