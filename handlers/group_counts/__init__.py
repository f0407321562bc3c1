"""The function GroupCounts: reads and sets the counts of the instance groups that sleep.

Runs on Lambda's Python 3.13 (`index.handle`). The folder is packaged as `hyperpod_cluster` is, with botocore's pinned
SageMaker service model (`models/`): UpdateCluster takes every group in full, and an SDK that is older than a field of a
group would leave that field out.
"""
