"""Find and remove what an environment left in its account and no stack owns."""
