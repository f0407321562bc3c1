"""What a Python that synthesises for a review imports at its start (PYTHONPATH)."""
