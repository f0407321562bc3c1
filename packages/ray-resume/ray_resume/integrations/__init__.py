"""Training frameworks whose own state is saved in a run's checkpoints, and torchrun; each needs its package."""
