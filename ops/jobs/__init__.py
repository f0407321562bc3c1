"""Submits, follows, lists and stops training jobs."""
