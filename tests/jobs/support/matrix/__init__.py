"""Trainings of all models and wrappers of PyTorch, without Ray, with faults at chosen operations of their saves."""
