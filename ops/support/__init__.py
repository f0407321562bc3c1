"""Collect, redact and pack what somebody needs to analyse an environment without access to it."""
