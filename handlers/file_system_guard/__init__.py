"""A custom resource that waits, when it is deleted, for the file systems that the FSx CSI driver made.

Runs under CDK's provider framework on Lambda's Python 3.13 (`index.on_event`, `index.is_complete`).
"""
