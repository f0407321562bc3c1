"""Brings local files to the environment's file system through its data bucket, and back."""
