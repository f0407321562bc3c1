"""Small assemblies with the objects of one stack, made by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ops.review.assembly import Assembly, Pair, resource_changes
from ops.review.kubernetes.changes import changes
from ops.review.kubernetes.objects import MANIFEST, RELEASE
from ops.review.model import Change, Danger, Effect

AWS_ACCOUNT: Final = "111122223333"
PRUNE: Final = "aws.cdk.eks/prune-c8"
Body = dict[str, Any]


def manifest(*objects: Mapping[str, Any], **properties: Any) -> Body:
    """Return a manifest's resource, which prunes what leaves it."""
    return {"Type": MANIFEST, "Properties": {"Manifest": json.dumps(objects), "PruneLabel": PRUNE, **properties}}


def helm_release(name: str, values: Mapping[str, Any], **properties: Any) -> Body:
    """Return a release's resource."""
    own = {"Release": name, "Namespace": "kuberay", "Values": json.dumps(values), **properties}
    return {"Type": RELEASE, "Properties": own}


class Environment:
    """Both sides of one environment, written below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._written = 0

    def pair(self, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Pair:
        """Return the pair of two sides, each a mapping of stacks (or of the ray stack's) to resources."""
        self._written += 1
        sides = [None if side is None else self._side(name, side) for name, side in (("base", before), ("head", after))]
        assert sides[1]
        return Pair("dev", sides[0], sides[1])

    def changes(self, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Change]:
        """Return all changes between two sides."""
        pair = self.pair(before, after)
        return list(changes(pair, list(resource_changes(pair))))

    def of_object(self, before: Body, after: Body) -> list[Change]:
        """Return the changes of an object that stays in its manifest."""
        return self.changes({"One": manifest(before)}, {"One": manifest(after)})

    def _side(self, name: str, side: Mapping[str, Any]) -> Assembly:
        directory = self.root / f"{name}-{self._written}"
        directory.mkdir()
        stacks = {"ray": side} if all("Type" in each for each in side.values()) else side
        artifacts = {}
        for part, resources in stacks.items():
            file = f"rayhp-dev-{part}.template.json"
            (directory / file).write_text(json.dumps({"Resources": resources}))
            properties = {"templateFile": file}
            where = {"environment": f"aws://{AWS_ACCOUNT}/us-west-2"}
            artifacts[part] = {"type": "aws:cloudformation:stack", "properties": properties, **where}
        (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
        return Assembly(directory)


def changed(body: Body, *path: str | int, value: Any) -> Body:
    """Return a copy with another value at `path`; None removes the value."""
    # Not a deep copy: the objects below share parts, and a copy would share them too.
    result: Body = json.loads(json.dumps(body))
    inside: Any = result
    for key in path[:-1]:
        inside = inside[key] if isinstance(key, int) else inside.setdefault(key, {})
    if value is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return result


def dangers(found: list[Change]) -> set[Danger]:
    """Return all dangers of changes."""
    return {danger for each in found for danger in each.dangers}


def effects(found: list[Change]) -> set[Effect]:
    """Return all effects of changes."""
    return {each.effect for each in found}


def metadata(name: str, namespace: str = "ray", **further: Any) -> Body:
    """Return an object's metadata."""
    return {"name": name, **({"namespace": namespace} if namespace else {}), **further}


_SAFE: Final = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
POD: Final[Body] = {
    "automountServiceAccountToken": False,
    "serviceAccountName": "ray",
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:aaaa",
            "command": ["ray", "start"],
            "resources": {"requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"}},
            "securityContext": _SAFE,
        }
    ],
}
RAY_CLUSTER: Final[Body] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": metadata("rayml"),
    "spec": {
        "rayVersion": "2.42.1",
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": POD}},
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": 4,
                "minReplicas": 4,
                "maxReplicas": 4,
                "rayStartParams": {},
                "template": {"spec": POD},
            }
        ],
    },
}
DEPLOYMENT: Final[Body] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": metadata("ray-reaper", "kuberay"),
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "reaper"}},
        "template": {"metadata": {"labels": {"app": "reaper"}}, "spec": POD},
    },
}
JOB: Final[Body] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": metadata("ray-image-1", "image-build"),
    "spec": {"backoffLimit": 2, "template": {"spec": POD}},
}
NAMESPACE: Final[Body] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": metadata("ray", "", labels={"pod-security.kubernetes.io/enforce": "restricted"}),
}
DENY: Final[Body] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": metadata("default-deny"),
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
ALLOW: Final[Body] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": metadata("allow-https"),
    "spec": {
        "podSelector": {"matchLabels": {"app": "ray"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/16"}}], "ports": [{"port": 443, "protocol": "TCP"}]}],
    },
}
ROLE: Final[Body] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": metadata("ray-reaper"),
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
}
BINDING: Final[Body] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": metadata("ray-reaper"),
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ray-reaper"},
    "subjects": [{"kind": "ServiceAccount", "name": "ray-reaper", "namespace": "kuberay"}],
}
VOLUME: Final[Body] = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": metadata("ray-fsx-claim", ""),
    "spec": {
        "capacity": {"storage": "1200Gi"},
        "csi": {
            "driver": "fsx.csi.aws.com",
            "volumeHandle": "fs-1",
            "volumeAttributes": {"dnsname": "a", "mountname": "b"},
        },
        "persistentVolumeReclaimPolicy": "Retain",
    },
}
CLAIM: Final[Body] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": metadata("fsx-claim"),
    "spec": {
        "resources": {"requests": {"storage": "1200Gi"}},
        "storageClassName": "",
        "volumeName": "ray-fsx-claim",
    },
}
DYNAMIC_CLAIM: Final[Body] = {
    **CLAIM,
    "spec": {"resources": {"requests": {"storage": "1200Gi"}}, "storageClassName": "fsx"},
}
CODE: Final[Body] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": metadata("ray-reaper-code", "kuberay"),
    "data": {"reaper.py": "import json\n"},
}
SERVICE: Final[Body] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": metadata("dashboard"),
    "spec": {"type": "ClusterIP", "ports": [{"port": 8265}]},
}
QUOTA: Final[Body] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": metadata("project"),
    "spec": {"hard": {"pods": "3", "services.loadbalancers": "0"}},
}
BUDGET: Final[Body] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": metadata("head"),
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "head"}}},
}
ACCOUNT: Final[Body] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": metadata("ray", annotations={"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/ray"}),
    "automountServiceAccountToken": False,
}
DEFINITION: Final[Body] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": metadata("rayclusters.ray.io", ""),
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": {"kind": "RayCluster"},
        "versions": [
            {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"properties": {"spec": {}}}}},
            {"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": {"properties": {"spec": {}}}}},
        ],
    },
}
STORAGE_CLASS: Final[Body] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": metadata("fsx", ""),
    "provisioner": "fsx.csi.aws.com",
    "parameters": {"kmsKeyId": "arn:aws:kms:us-west-2:111122223333:key/own"},
    "reclaimPolicy": "Retain",
}
WEBHOOK: Final[Body] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": metadata("checks", ""),
    "webhooks": [{"name": "a.b.c", "failurePolicy": "Fail"}],
}
CRON_JOB: Final[Body] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": metadata("job-supervisor"),
    "spec": {"schedule": "0 0 31 2 *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": POD}}}},
}
