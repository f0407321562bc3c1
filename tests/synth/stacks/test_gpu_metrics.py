"""`observability.in_cluster` with GPUs: the exporter's namespace and policies are there before its pods."""

import json
from pathlib import Path

from config import load
from tests.charts.support.connection_table import with_in_cluster
from tests.synth.support.kubernetes_objects import MANIFEST, text
from tests.synth.support.synthesis import synthesise


def test_exporters_start_in_a_closed_namespace_and_leave_before_it(tmp_path: Path) -> None:
    ray = synthesise(with_in_cluster(load("dev")), tmp_path).templates["ray"]
    kinds = {
        id: {(item["kind"], item["metadata"].get("namespace", item["metadata"]["name"])) for item in objects}
        for id, resource in ray.all(MANIFEST).items()
        for objects in [json.loads(text(resource["Properties"]["Manifest"]))]
    }
    [namespace] = [id for id, held in kinds.items() if ("Namespace", "gpu-metrics") in held]
    [policies] = [id for id, held in kinds.items() if ("NetworkPolicy", "gpu-metrics") in held]
    [release] = [
        resource
        for resource in ray.all("Custom::AWSCDK-EKS-HelmChart").values()
        if resource["Properties"]["Release"] == "observability"
    ]
    assert namespace in ray.body["Resources"][policies]["DependsOn"]
    assert policies in release["DependsOn"]
