"""Training frameworks whose own state is saved in a run's checkpoints; each module needs its framework."""
