"""Runs whose number of workers changes: fewer after a loss, more again once there are resources."""
