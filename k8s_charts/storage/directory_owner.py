"""A Job that gives Ray's user directories of its own on the shared file system: the one root exception.

A new file system's root belongs to root, and so do the directories of its data repository associations; Ray's pods run
as an ordinary user, and the kubelet changes no owners on a volume that many nodes write (the FSx CSI driver's
`fsGroupPolicy`). So root must act once, and `restricted` admits no root. A static volume is therefore claimed a second
time in a namespace of its own, where nothing else lives and no traffic is allowed, and Ray's namespace stays
`restricted`. The volume of a dynamic claim is not known before it is made and only pods beside the claim can mount it:
there the Job runs in Ray's own namespace, which then enforces `baseline` and warns of what is not `restricted`
(docs/adr/0025).
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
    """RAY_DIRECTORY and `linked` on the volume behind `claim`, mounted at `mount_path`; `image` is a plain Python.

    `linked` are paths of the file system that mirror a bucket; what is exported from them must first be written.
    """

    namespace: str
    claim: str
    mount_path: str
    image: str
    linked: Sequence[str] = ()


class ClosedNamespaceChart(ProjectChart):
    """A policy that lets nothing in or out: the mount is the node's traffic, and nothing else is needed."""

    def __init__(self, scope: Construct, id: str, *, namespace: str) -> None:
        super().__init__(scope, id)
        k8s.KubeNetworkPolicy(
            self,
            "closed",
            metadata=k8s.ObjectMeta(name="closed", namespace=namespace),
            spec=k8s.NetworkPolicySpec(pod_selector={}, policy_types=["Ingress", "Egress"]),
        )


class VolumeOwnerChart(ProjectChart):
    """The Job. It cannot change, so its name tells what it does: another deed is another Job."""

    def __init__(self, scope: Construct, id: str, *, owner: VolumeOwner) -> None:
        super().__init__(scope, id)
        spec = _spec(owner)
        deed = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
        job = cdk8s.ApiObject(
            self,
            "job",
            api_version="batch/v1",
            kind="Job",
            metadata=cdk8s.ApiObjectMetadata(name=f"{RAY_DIRECTORY_JOB}{deed}", namespace=owner.namespace),
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
            # Root without capabilities writes where root is the owner, and gives nothing away.
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
        },
        "volumeMounts": [{"name": "file-system", "mountPath": owner.mount_path}],
    }
    return {
        # The claim is bound, and the driver on the node, minutes later than the Job is made; its pod waits. What
        # fails is worth another look.
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
