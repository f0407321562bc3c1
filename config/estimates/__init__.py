"""Estimates of an environment's costs and of the addresses that it uses."""
