"""checkov's Kubernetes policies on the rendered manifests: an annotation of the object explains each departure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import available, load
from tests.charts.support.connection_table import with_in_cluster
from tests.charts.support.facts import Object
from tests.support.checkov import Finding, check, places
from tests.support.rendered import documents
from tests.support.sleeping_environment import with_sleep

ANNOTATION = "checkov.io/skip"


def objects() -> Iterator[tuple[Path, list[Object]]]:
    """Return the objects of each rendered file, without Helm values, and with pods in place of RayClusters.

    Those of `observability` and of the sleeper are dev's.

    checkov does not know RayClusters. The pods are those that KubeRay makes from the templates, and they carry the
    RayCluster's annotations.
    """
    rendered = {file: found for name in available() for file, found in documents(load(name)).items()}
    observed = documents(with_sleep(with_in_cluster(load("dev"), alertmanager=True)))
    rendered |= {file: found for file, found in observed.items() if file not in rendered}
    for file, found in sorted(rendered.items()):
        read = [item for item in found if "kind" in item]
        pods = [pod for item in read if item["kind"] == "RayCluster" for pod in ray_pods(item)]
        yield file, [*read, *pods]


def ray_pods(cluster: Object) -> Iterator[Object]:
    spec, metadata = cluster["spec"], cluster["metadata"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        own = {**metadata, "name": f"{metadata['name']}-{group.get('groupName', 'head')}"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": group["template"]["spec"]}


def write(file: Path, items: list[Object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.dump_all(items, Dumper=yaml.CSafeDumper, sort_keys=False))


def write_privileged_pod(directory: Path) -> None:
    container = {"name": "main", "image": "example.invalid/image:1", "securityContext": {"privileged": True}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [container]}}
    directory.mkdir()
    (directory / "pod.yaml").write_text(yaml.safe_dump(pod))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """Return checkov's findings for the objects, for the objects without explanations, and for a privileged pod.

    One run checks all three, because checkov takes seconds to start.
    """
    directory = tmp_path_factory.mktemp("checkov") / "input"
    for file, items in objects():
        write(directory / "explained" / file, items)
        for item in items:
            annotations: dict[str, Any] = item["metadata"].get("annotations", {})
            for key in [key for key in annotations if key.startswith(ANNOTATION)]:
                del annotations[key]
        write(directory / "bare" / file, items)
    write_privileged_pod(directory / "wrong")
    return check(directory, "kubernetes")


def test_nothing_departs_from_a_policy_without_saying_why(found: dict[str, list[Finding]]) -> None:
    assert sorted(places(found["failed_checks"], "explained")) == []
    assert len(places(found["passed_checks"], "explained")) > 1000, "checkov must have checked the objects"


def test_nothing_is_explained_that_does_not_depart(found: dict[str, list[Finding]]) -> None:
    assert places(found["skipped_checks"], "explained") == places(found["failed_checks"], "bare")


def test_every_explanation_is_a_sentence(found: dict[str, list[Finding]]) -> None:
    reasons = {finding["check_result"]["suppress_comment"] for finding in found["skipped_checks"]}
    assert all(len(reason.split()) > 5 for reason in reasons), reasons


def test_a_privileged_pod_is_found(found: dict[str, list[Finding]]) -> None:
    assert "CKV_K8S_16" in {policy for _, _, policy in places(found["failed_checks"], "wrong")}
