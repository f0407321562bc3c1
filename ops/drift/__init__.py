"""Compare what runs in an environment with what was deployed."""
