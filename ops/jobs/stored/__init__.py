"""Reads the output of a run that no log of its supervisors has."""
