"""A Job that gives directories of the shared file system to Ray's user: the only exception that runs as root.

The root directory of a new file system belongs to root, and so do the directories of its data repository associations.
Ray's pods run as an ordinary user, and the kubelet changes no owners on a volume that many nodes write (the FSx CSI
driver's `fsGroupPolicy`). So root must act once, but `restricted` admits no root.

A static volume is therefore claimed a second time in a separate namespace, where nothing else runs and no traffic is
allowed; Ray's namespace stays `restricted`. The volume of a dynamic claim is unknown before it is created, and only
pods in the claim's namespace can mount it. For a dynamic claim the Job therefore runs in Ray's own namespace, which
then enforces `baseline` and warns about what is not `restricted` (docs/adr/0025).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.helm.release import on_system_nodes
from k8s_charts.ray.pods import RAY_GROUP, RAY_USER
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.names import RAY_DIRECTORY, RAY_DIRECTORY_JOB

SCRIPT: Final = Path(__file__).with_name("own_directory.py")
# The second claim of a static volume.
OWN_CLAIM: Final = "file-system"

_ROOT: Final = "only root may give a directory of a new file system away: docs/adr/0025"
_EXCEPTIONS: Final = {
    "CKV_K8S_11": "it runs for a second, once; its memory is limited",
    **PULL_IF_ABSENT,
    "CKV_K8S_23": _ROOT,
    "CKV_K8S_25": _ROOT,
    "CKV_K8S_40": _ROOT,
    **TAG_UNTIL_SETTLED,
}


@dataclass(frozen=True)
class VolumeOwner:
    """The Job's settings: it gives RAY_DIRECTORY and `linked` on the volume of `claim` to Ray's user.

    `linked` are paths of the file system that mirror a bucket: pods can export only what they can write. The volume is
    mounted at `mount_path`; `image` is a plain Python image.
    """

    namespace: str
    claim: str
    mount_path: str
    image: str
    linked: Sequence[str] = ()


class ClosedNamespaceChart(ProjectChart):
    """A policy that allows no traffic: the mount is the node's traffic, and the Job needs nothing else."""

    def __init__(self, scope: Construct, id: str, *, namespace: str) -> None:
        super().__init__(scope, id)
        k8s.KubeNetworkPolicy(
            self,
            "closed",
            metadata=k8s.ObjectMeta(name="closed", namespace=namespace),
            spec=k8s.NetworkPolicySpec(pod_selector={}, policy_types=["Ingress", "Egress"]),
        )


class VolumeOwnerChart(ProjectChart):
    """The Job. A Job is immutable, so its name contains a hash of its spec: another spec is another Job."""

    def __init__(self, scope: Construct, id: str, *, owner: VolumeOwner) -> None:
        super().__init__(scope, id)
        spec = _spec(owner)
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
        job = cdk8s.ApiObject(
            self,
            "job",
            api_version="batch/v1",
            kind="Job",
            metadata=cdk8s.ApiObjectMetadata(name=f"{RAY_DIRECTORY_JOB}{digest}", namespace=owner.namespace),
        )
        job.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))
        explain(job, _EXCEPTIONS)


def _spec(owner: VolumeOwner) -> dict[str, Any]:
    paths = [f"/{RAY_DIRECTORY}", *owner.linked]
    container = {
        "name": "own",
        "image": owner.image,
        "command": ["python", "-c", SCRIPT.read_text()],
        "args": [str(RAY_USER), str(RAY_GROUP), *(f"{owner.mount_path}{path}" for path in paths)],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            # Without capabilities, root can write only where root is the owner, and cannot change owners.
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
        },
        "volumeMounts": [{"name": "file-system", "mountPath": owner.mount_path}],
    }
    return {
        # The pod waits until the claim is bound and the driver is on the node, minutes after the Job's creation. A
        # failure is retried.
        "backoffLimit": 6,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "nodeSelector": on_system_nodes(),
                "securityContext": {
                    "runAsUser": 0,
                    "runAsGroup": 0,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [{"name": "file-system", "persistentVolumeClaim": {"claimName": owner.claim}}],
            }
        },
    }
