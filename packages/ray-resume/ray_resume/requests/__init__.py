"""Checkpoints on request: of an operator, or of the signal that ends the program."""
