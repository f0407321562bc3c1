"""Every file of manifests/ is taken by a real API server that refuses what it does not know, and warns of nothing.

Of Helm releases: what their values make of the stand-in charts, which put each value where the publishers' do.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import available, load
from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl, Object
from k8s_charts.shared.names import RAYJOB_SUBMITTER
from ops.jobs.operators.rayjob import ray_job
from ops.jobs.run import OwnCluster
from rehearsal import stand_ins
from tests.rehearsal.kubernetes.cluster import install_definitions, wait_until_served
from tests.support import rendered

pytestmark = pytest.mark.product

STRICT = ("--dry-run=server", "--validate=strict", "-f", "-")


class Api:
    """An API server that has the namespaces of an environment and KubeRay's kinds, and nothing else."""

    def __init__(self, plane: ControlPlane, charts: Path) -> None:
        self.kubectl = Kubectl(plane)
        self._plane = plane
        self._charts = charts

    def create(self, *objects: Object, namespace: str | None = None) -> list[str]:
        """Return what the server says of objects that would be created: refusals and warnings.

        `namespace`: of those that name none.
        """
        # One by one: of a List kubectl looks at the fields itself, by what it knows of them.
        items = "\n".join(map(json.dumps, objects))
        where = [f"--namespace={namespace}"] if namespace else []
        done = self._run("kubectl", "create", *where, *STRICT, text=items)
        assert done.stderr or done.stdout.count("created (server dry run)") == len(objects)
        return done.stderr.splitlines()

    def rendered(self, release: Object) -> list[Object]:
        """The objects of a Helm release."""
        values = self._plane.directory / "values.json"
        values.write_text(json.dumps(release["values"]))
        where = (f"--namespace={release['namespace']}", f"--values={values}")
        chart = str(self._charts / release["chart"])
        done = self._run("helm", "template", release["name"], chart, "--dry-run=server", "--skip-crds", *where)
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]

    def _run(self, program: str, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        argv = [str(self._plane.binaries[program]), f"--kubeconfig={self._plane.admin_kubeconfig}", *arguments]
        own = {"HOME": str(self._plane.directory), "PATH": "/usr/bin:/bin"}
        return subprocess.run(argv, input=text, env=own, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, binaries: Binaries) -> Iterator[Api]:
    charts = tmp_path_factory.mktemp("charts")
    stand_ins.build(charts, binaries)
    plane = ControlPlane(tmp_path_factory.mktemp("dry-run"), binaries, name="dry-run")
    plane.start()
    try:
        api = Api(plane, charts)
        install_definitions(api.kubectl, binaries)
        yield api
    finally:
        plane.stop()


def documents(environment: str) -> list[tuple[Path, Object]]:
    files = sorted(rendered.documents(load(environment)).items())
    return [(file, item) for file, found in files for item in found]


def lay_ground(api: Api, found: list[tuple[Path, Object]]) -> None:
    """Make the namespaces, and what a chart looks for."""
    ground = [
        item
        for _, item in found
        if item.get("kind") == "Namespace" or item.get("metadata", {}).get("namespace") == "kube-system"
    ]
    api.kubectl("apply", "--validate=strict", "-f", "-", stdin="\n---\n".join(map(json.dumps, ground)))


@pytest.fixture(scope="module", params=available())
def committed(request: pytest.FixtureRequest, api: Api) -> list[tuple[Path, Object]]:
    """An environment's documents; what the others stand on is there."""
    found = documents(request.param)
    lay_ground(api, found)
    return found


@pytest.mark.sampled(2)
def test_objects_are_taken_strictly_and_without_a_warning(committed: list[tuple[Path, Object]], api: Api) -> None:
    there = [(item["kind"], item["metadata"]["name"]) for item in api.kubectl.get("namespaces,sa", "-A")["items"]]
    objects = [
        item for _, item in committed if "kind" in item and (item["kind"], item["metadata"]["name"]) not in there
    ]
    assert {"RayCluster", "NetworkPolicy", "PersistentVolume", "Deployment"} <= {item["kind"] for item in objects}
    assert api.create(*objects) == []


@pytest.mark.sampled(2)
def test_what_helm_values_become_is_taken_strictly(committed: list[tuple[Path, Object]], api: Api) -> None:
    releases = [item for _, item in committed if "chart" in item and not item["only_crds"]]
    assert {release["chart"] for release in releases} == {"kuberay-operator", "aws-fsx-csi-driver"}
    for release in releases:
        made = api.rendered(release)
        assert "Deployment" in {item["kind"] for item in made}
        assert api.create(*made, namespace=release["namespace"]) == []


def test_ray_job_from_an_environments_ray_cluster_is_taken_strictly(api: Api, binaries: Binaries) -> None:
    """By KubeRay's whole definition of RayJobs: the shortened one takes any field."""
    definition = kuberay_module_directory(binaries) / "config/crd/bases/ray.io_rayjobs.yaml"
    api.kubectl("apply", "--server-side", "-f", definition)
    wait_until_served(api.kubectl)
    found = documents("dev")
    lay_ground(api, found)
    named = {(item["kind"], item["metadata"]["name"]): item for _, item in found if "kind" in item}
    made = ray_job(
        "train",
        "python train.py",
        OwnCluster(queue="team-a"),
        attempts=4,
        cluster=named["RayCluster", "rayml"],
        submitter=named["CronJob", RAYJOB_SUBMITTER]["spec"]["jobTemplate"]["spec"]["template"],
    )
    assert api.create(made, namespace="ray") == []
    made["spec"]["suspended"] = True
    [refusal] = api.create(made, namespace="ray")
    assert 'unknown field "spec.suspended"' in refusal


def at(item: Object, path: str) -> Any:
    for step in path.split("."):
        item = item[int(step)] if isinstance(item, list) else item[step]
    return item


@pytest.mark.parametrize(
    ("kind", "path", "field"),
    [
        ("RayCluster", "spec", "gcsFaultToleranceOptions"),
        ("RayCluster", "spec.workerGroupSpecs.0", "idleTimeoutSeconds"),
        ("RayCluster", "spec.headGroupSpec.template.spec.containers.0", "resource"),
        ("Job", "spec.template.spec.containers.0.securityContext", "appArmour"),
        ("Deployment", "spec.template.spec", "toleration"),
        ("NetworkPolicy", "spec", "engress"),
        ("ResourceQuota", "spec", "soft"),
        ("Namespace", "metadata", "label"),
    ],
)
def test_a_field_that_the_api_does_not_know_is_refused_by_name(api: Api, kind: str, path: str, field: str) -> None:
    item = next(item for _, item in documents("dev") if item.get("kind") == kind)
    at(item, path)[field] = {}
    [refusal] = api.create(item)
    assert "strict decoding error" in refusal
    assert f'unknown field "{path_in_message(path)}.{field}"' in refusal


def path_in_message(path: str) -> str:
    return path.replace(".0", "[0]")


def test_a_pod_that_its_namespace_does_not_admit_is_warned_of(api: Api) -> None:
    """So that the absence of warnings says something."""
    found = documents("dev")
    lay_ground(api, found)
    item = next(item for _, item in found if item.get("kind") == "Deployment")
    item["spec"]["template"]["spec"]["hostPID"] = True
    assert any("would violate PodSecurity" in line for line in api.create(item))
