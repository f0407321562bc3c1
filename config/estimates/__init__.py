"""Estimates of an environment's costs, of the addresses that it uses, and of its trainings' checkpoints."""
