"""Custom resources for a SageMaker HyperPod cluster: the cluster itself, and the guard that is deleted after it.

Runs under CDK's provider framework on Lambda's Python 3.13 (`index.on_event`, `index.is_complete`). The folder is
packaged unchanged, together with botocore's pinned SageMaker service model (`models/`): Lambda's own SDK can be older
than a field of the request.
"""
