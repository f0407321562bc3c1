"""The NetworkPolicies of each namespace: deny everything, then allow each flow of `flows.py` by name."""

import json
from collections.abc import Mapping
from typing import Any

import cdk8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.flows import Flow, ray_cluster_flows
from k8s_charts.shared.limits import head_budget


class PoliciesChart(ProjectChart):
    """Policies of a whole namespace, which allow only `flows`."""

    def __init__(self, scope: Construct, id: str, *, namespace: str, flows: tuple[Flow, ...]) -> None:
        super().__init__(scope, id)
        _policy(self, "default-deny", namespace, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        _allow(self, namespace, flows)


class RayClusterPoliciesChart(ProjectChart):
    """The policy and the disruption budget of one RayCluster in Ray's namespace."""

    def __init__(self, scope: Construct, id: str, *, namespace: str, cluster: str) -> None:
        super().__init__(scope, id)
        _allow(self, namespace, ray_cluster_flows(cluster))
        head_budget(self, namespace=namespace, cluster=cluster)


def _allow(chart: ProjectChart, namespace: str, flows: tuple[Flow, ...]) -> None:
    for flow in flows:
        _policy(chart, f"allow-{flow.name}", namespace, flow.specification())


def _policy(chart: ProjectChart, name: str, namespace: str, spec: Mapping[str, Any]) -> None:
    metadata = cdk8s.ApiObjectMetadata(name=name, namespace=namespace)
    policy = cdk8s.ApiObject(chart, name, api_version="networking.k8s.io/v1", kind="NetworkPolicy", metadata=metadata)
    # Sorted like objects of cdk8s's typed classes: another order of keys would change the template.
    policy.add_json_patch(cdk8s.JsonPatch.add("/spec", json.loads(json.dumps(spec, sort_keys=True))))
