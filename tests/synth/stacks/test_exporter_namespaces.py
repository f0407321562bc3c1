"""`observability.in_cluster` with GPUs and EFA: an exporter's namespace and policies are there before its pods."""

import json
from pathlib import Path
from typing import Any

from config import load
from tests.charts.support.connection_table import with_in_cluster
from tests.synth.support.kubernetes_objects import MANIFEST, text
from tests.synth.support.synthesis import synthesise


def waits_for(resources: dict[str, Any], resource: dict[str, Any]) -> set[str]:
    """Return the ids of the resources that are there before this one."""
    found = set(resource.get("DependsOn", []))
    return found.union(*(waits_for(resources, resources[id]) for id in found))


def test_exporters_start_in_a_closed_namespace_and_leave_before_it(tmp_path: Path) -> None:
    ray = synthesise(with_in_cluster(load("dev")), tmp_path).templates["ray"]
    kinds = {
        id: {(item["kind"], item["metadata"].get("namespace", item["metadata"]["name"])) for item in objects}
        for id, resource in ray.all(MANIFEST).items()
        for objects in [json.loads(text(resource["Properties"]["Manifest"]))]
    }
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
