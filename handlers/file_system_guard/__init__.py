"""A custom resource whose deletion waits until the FSx CSI driver has deleted its file systems.

It runs under CDK's provider framework on Lambda's Python 3.13 (`index.on_event`, `index.is_complete`).
"""
