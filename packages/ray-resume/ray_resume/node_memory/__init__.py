"""Checkpoints in the memory of the nodes, beside those in the storage: cheaper, taken more often, and never trusted."""
