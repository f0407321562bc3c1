"""Say what the faults found, and where it was mended."""

from typing import Final

FOUND: Final = """\
## What they found

In the product:

- A creation with `protect: true` that fails under `--no-rollback` and is then deleted leaves empty buckets and an empty
  image repository: CloudFormation deletes what `RetainExceptOnCreate` protects only in a rollback. The next creation
  then finds their names taken. `ops sweep --env prod --data` removes them
  ([troubleshooting](../troubleshooting.md)).
- The handlers of the HyperPod cluster and of its guard: nothing, also when a request comes late for the first time,
  twice, or its answer is lost.

In the embedded account, all mended:

- A second deletion did not delete what the first one did not reach.
- A failed update that is retried without a rollback reported success and changed nothing.
- The deletion of a gateway attachment or a dashboard that is gone failed for ever.
- A retry created a second role and lost the first, because it ignored that the first could not be deleted.
- A deployment failed with an internal error if a role was sought while another resource added one.
- An update of tags replaced the network interfaces of the EKS control plane.
- A rule that was created while an event was delivered stopped a transition of HyperPod.
- The tags of a deleted log group came back with the next group of its name.
- The clean-up of an update tried each deletion once, and did not try what a resource needs that it could not delete.
  CloudFormation tries three times, skips the resource, and says at the end that it was left.

## What is not tried

- Types whose update the embedded account refuses or always replaces: routes, security group rules between groups,
  associations of route tables, gateway attachments, layers, subscriptions.
- A function's deletions that all fail while an update cleans up: what it made stays, and only a person can delete it.
- What Kubernetes does with what it was given: the drills and rehearsals try that.
"""
