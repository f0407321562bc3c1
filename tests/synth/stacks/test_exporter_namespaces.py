"""`observability.in_cluster` with GPUs and EFA: an exporter's namespace and policies are there before its pods."""

import json
from typing import Any

import pytest

from config import load
from tests.charts.support.connection_table import with_in_cluster
from tests.synth.support.kubernetes_objects import MANIFEST, text
from tests.synth.support.synthesis import Template, synthesise


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesise(with_in_cluster(load("dev")), tmp_path_factory.mktemp("in-cluster")).templates["ray"]


def waits_for(resources: dict[str, Any], resource: dict[str, Any]) -> set[str]:
    """Return the ids of the resources that are there before this one."""
    found = set(resource.get("DependsOn", []))
    return found.union(*(waits_for(resources, resources[id]) for id in found))


def kinds_of(ray: Template) -> dict[str, set[tuple[str, str]]]:
    """Return each manifest's kinds, with the namespace or else the name, by logical id."""
    return {
        id: {(item["kind"], item["metadata"].get("namespace", item["metadata"]["name"])) for item in objects}
        for id, resource in ray.all(MANIFEST).items()
        for objects in [json.loads(text(resource["Properties"]["Manifest"]))]
    }


def test_viewers_get_their_roles_once_these_namespaces_exist(ray: Template) -> None:
    kinds = kinds_of(ray)
    [viewers] = [id for id, held in kinds.items() if ("ClusterRole", "ray-viewers") in held]
    namespaces = {name for kind, name in kinds[viewers] if kind == "RoleBinding"}
    made = {name: id for id, held in kinds.items() for kind, name in held if kind == "Namespace" and name in namespaces}
    assert {"ray", "ray-volume", "prometheus-system", "gpu-metrics", "efa-metrics"} <= made.keys()
    assert set(made.values()) <= waits_for(ray.body["Resources"], ray.body["Resources"][viewers])


def test_exporters_start_in_a_closed_namespace_and_leave_before_it(ray: Template) -> None:
    kinds = kinds_of(ray)
    [release] = [
        resource
        for resource in ray.all("Custom::AWSCDK-EKS-HelmChart").values()
        if resource["Properties"]["Release"] == "observability"
    ]
    for own in ("gpu-metrics", "efa-metrics"):
        [namespace] = [id for id, held in kinds.items() if ("Namespace", own) in held]
        [policies] = [id for id, held in kinds.items() if ("NetworkPolicy", own) in held]
        assert namespace in ray.body["Resources"][policies]["DependsOn"]
        assert policies in waits_for(ray.body["Resources"], release)
