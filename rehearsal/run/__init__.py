"""Run one rehearsal: deploy, watch, change and destroy an environment, and count what is left."""
