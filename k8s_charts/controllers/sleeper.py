"""The controller that lets instance groups sleep while nothing uses them (`controllers/sleeper.py`).

It runs in the operator's namespace, as the reaper does. Its role on AWS may invoke one function, and nothing else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cdk8s
from constructs import Construct

from config import EksEnvironment, naming
from config.facts import versions
from config.model import InstanceGroup
from k8s_charts.controllers.code import SERVICE_ACCOUNT
from k8s_charts.controllers.replicas import deployment
from k8s_charts.helm.images import pulled
from k8s_charts.ray.from_environment import HeadToken, head_tokens
from k8s_charts.shared.chart import ProjectChart, add_object
from k8s_charts.shared.checkov_skips import NEEDS_THE_API, PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.flows import SLEEPER_PODS, allowed, enabled, ends, sleeper_flows
from k8s_charts.shared.names import SLEEPER, SLEEPER_CODE
from k8s_charts.shared.service_account import ROLE_ANNOTATION

_LABELS: Final = dict(SLEEPER_PODS)
_EXCEPTIONS: Final = {**PULL_IF_ABSENT, **NEEDS_THE_API, **TAG_UNTIL_SETTLED}
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class SleeperObjects:
    """A sleeper for the environment; `groups` are the JSON that `controllers.group_users.SleepingGroup` reads."""

    environment: EksEnvironment
    role_arn: str
    groups: tuple[str, ...]
    tokens: Mapping[str, HeadToken]
    """Of heads of RayClusters with workers on these groups."""


def sleeper_objects(environment: EksEnvironment, role_arn: str) -> SleeperObjects:
    """Return the sleeper of an environment in which a group sleeps."""
    groups = [group for group in environment.hyperpod.instance_groups if group.sleep]
    names = {group.name for group in groups}
    with_workers = {
        cluster.name
        for cluster in environment.ray.clusters
        if any(workers.instance_group in names for workers in cluster.workers)
    }
    tokens = {name: token for name, token in head_tokens(environment).items() if name in with_workers}
    return SleeperObjects(environment, role_arn, tuple(_group(environment, each) for each in groups), tokens)


class SleeperChart(ProjectChart):
    """The sleeper: service account, roles, network policies, disruption budget and two replicas."""

    def __init__(self, scope: Construct, id: str, *, sleeper: SleeperObjects) -> None:
        super().__init__(scope, id)
        own = sleeper.environment.kuberay.namespace
        account = cdk8s.ApiObjectMetadata(name=SLEEPER, namespace=own, annotations={ROLE_ANNOTATION: sleeper.role_arn})
        fields = {"automountServiceAccountToken": False}
        add_object(self, "ServiceAccount", api_version="v1", kind="ServiceAccount", metadata=account, fields=fields)
        self._add_roles(sleeper)
        for flow in allowed(sleeper_flows(ends(sleeper.environment)), sleeper.environment):
            spec = {"spec": flow.specification()}
            self._add("networking.k8s.io/v1", "NetworkPolicy", flow.name, own, spec)
        disruption = {"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}}
        self._add("policy/v1", "PodDisruptionBudget", SLEEPER, own, {"spec": disruption})
        deployment = {"spec": _deployment(sleeper)}
        explain(self._add("apps/v1", "Deployment", SLEEPER, own, deployment), _EXCEPTIONS)

    def _add_roles(self, sleeper: SleeperObjects) -> None:
        """Grant exactly `controllers.sleeper.PERMISSIONS`, and the Secrets of the heads' tokens."""
        own, ray = sleeper.environment.kuberay.namespace, sleeper.environment.ray.namespace
        seen = ["list", "watch"]
        cluster = [_rule("", ["nodes", "pods"], seen)]
        in_ray = [
            _rule("batch", ["jobs"], seen),
            _rule("ray.io", ["rayclusters"], ["get", *seen, "update"]),
            _rule("", ["events"], ["create"]),
        ]
        if secrets := sorted({token.secret for token in sleeper.tokens.values()}):
            # An empty list of names would permit every Secret.
            in_ray.append(_rule("", ["secrets"], ["get"], secrets))
        in_own = [
            # No rule can name what does not exist yet.
            _rule("coordination.k8s.io", ["leases"], ["create"]),
            _rule("coordination.k8s.io", ["leases"], ["get", "update"], [SLEEPER]),
            _rule("apps", ["deployments"], ["get"], [SLEEPER]),
        ]
        subjects = [{"kind": "ServiceAccount", "name": SLEEPER, "namespace": own}]
        for kind, name, namespace, rules in (
            # Two environments can share a cluster, but not an operator's namespace.
            ("ClusterRole", f"{own}-{SLEEPER}", None, cluster),
            ("Role", SLEEPER, ray, in_ray),
            ("Role", f"{SLEEPER}-lease", own, in_own),
        ):
            self._add(f"{_RBAC}/v1", kind, name, namespace, {"rules": rules})
            reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
            binding = {"roleRef": reference, "subjects": subjects}
            self._add(f"{_RBAC}/v1", f"{kind}Binding", name, namespace, binding)

    def _add(
        self, api_version: str, kind: str, name: str, namespace: str | None, fields: dict[str, Any]
    ) -> cdk8s.ApiObject:
        metadata = cdk8s.ApiObjectMetadata(name=name, namespace=namespace)
        id = f"{kind}-{name}"
        return add_object(self, id, api_version=api_version, kind=kind, metadata=metadata, fields=fields)


def _rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> dict[str, Any]:
    named = {"resourceNames": names} if names else {}
    return {"apiGroups": [group], "resources": resources, **named, "verbs": verbs}


def _group(environment: EksEnvironment, group: InstanceGroup) -> str:
    """Return what the sleeper knows of a group, as JSON. Raises ValueError if the group does not sleep."""
    if group.sleep is None:
        raise ValueError(f"{group.name}: the instance group has no `sleep`. Fix: state it")
    workers = [
        {
            "cluster": cluster.name,
            "name": each.name,
            "replicas": each.replicas,
            "min_replicas": each.min_replicas,
        }
        for cluster in environment.ray.clusters
        for each in cluster.workers
        if each.instance_group == group.name
    ]
    return json.dumps(
        {
            "group": group.name,
            "count": group.count,
            "min": group.sleep.min,
            "after_seconds": group.sleep.after_seconds,
            "hours": group.sleep.hours,
            "workers": workers,
            "wake": group.sleep.wake,
            "gpus": enabled("gpus", environment) and group.type.gpus > 0,
        }
    )


def _deployment(sleeper: SleeperObjects) -> dict[str, Any]:
    environment = sleeper.environment
    return deployment(
        "sleeper",
        name=SLEEPER,
        code=SLEEPER_CODE,
        image=pulled(versions.PYTHON_IMAGE, environment),
        labels=SLEEPER_PODS,
        arguments=[
            f"--namespace={environment.ray.namespace}",
            f"--own-namespace={environment.kuberay.namespace}",
            *(f"--group={group}" for group in sleeper.groups),
            *(f"--token={cluster}={token.secret}/{token.key}" for cluster, token in sleeper.tokens.items()),
            f"--function={naming.group_counts(environment)}",
            f"--region={environment.region}",
            f"--service-account={SERVICE_ACCOUNT}",
        ],
        resources={"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        # A call of the function ends, and the Lease is released.
        grace_seconds=45,
    )
