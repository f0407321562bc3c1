"""Verifies network isolation with probe pods."""
