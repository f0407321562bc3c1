"""What the project's tests put into a cluster: charts, KubeRay and its kinds."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import OPERATOR_IMAGE, Kubectl, Object, helm
from k8s_charts.shared.chart import ProjectChart
from ops.change import kuberay_crds
from stacks.shared.object_release import write_objects_chart
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

OPERATOR_NAMESPACE = "kuberay"


def install_objects(control_plane: ControlPlane, name: str, namespace: str, chart: ProjectChart) -> None:
    """Install a chart's objects as a release of their own, or upgrade it, as CDK's function does."""
    with TemporaryDirectory() as directory:
        own = write_objects_chart(Path(directory), name, chart)
        helm(control_plane, "upgrade", name, own, "--install", f"--namespace={namespace}")


def is_allowed(control_plane: ControlPlane, group: str, attributes: Mapping[str, str]) -> bool:
    """Return whether RBAC allows a group's member a request. A kubectl per question takes a third of a CPU second."""
    spec = {"user": "somebody", "groups": [group], "resourceAttributes": attributes}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = control_plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
    return bool(answer["status"]["allowed"])


def definitions(binaries: Binaries) -> list[Object]:
    """KubeRay's definitions of its kinds: of RayCluster with the fields of v1, of the two larger kinds with none."""
    clusters, *others = kuberay_crds.read(kuberay_module_directory(binaries) / "config" / "crd" / "bases")
    return [_shortened(clusters, "v1alpha1"), *(_shortened(each, "v1", "v1alpha1") for each in others)]


def _shortened(definition: Mapping[str, Any], *names: str) -> Object:
    """Let objects of these versions have any field: a definition costs the API server time by its size."""
    spec = definition["spec"]
    schema = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    versions = [version | schema if version["name"] in names else version for version in spec["versions"]]
    return {**definition, "spec": {**spec, "versions": versions}}


def install_definitions(kubectl: Kubectl, binaries: Binaries) -> None:
    """Install KubeRay's kinds, and wait until they are served."""
    kubectl("apply", "--server-side", "-f", "-", stdin="\n".join(map(json.dumps, definitions(binaries))))
    wait_until_served(kubectl)


def wait_until_served(kubectl: Kubectl) -> None:
    """Wait for every kind, and for the API server's cache of its objects, which each change of the kind empties.

    A kind that is deleted before goes with the API server's next look at all kinds, after up to five minutes: its
    second try to empty the kind meets its own note of the first that failed, and is not begun again.
    """
    wait_until(lambda: all(map(_is_established, kubectl.get("crds")["items"])), "KubeRay's kinds")
    for definition in kubectl.get("crds")["items"]:
        spec = definition["spec"]
        for version in spec["versions"]:
            objects = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            # From the cache alone; kubectl asks again while it is being filled.
            kubectl("get", "--raw", f"{objects}?resourceVersion=0")


def install_operator(kubectl: Kubectl, binaries: Binaries) -> list[Object]:
    """Install KubeRay, wait until it is available, and return its objects."""
    install_definitions(kubectl, binaries)
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}})
    objects = operator_objects(binaries)
    kubectl.apply(*objects)
    available = ("wait", "--for=condition=Available", "deployment/kuberay-operator", KUBECTL_PATIENCE)
    kubectl("-n", OPERATOR_NAMESPACE, *available)
    return objects


def operator_objects(binaries: Binaries) -> list[Object]:
    """KubeRay's own roles and Deployment, from its Go module, asking for the system node."""
    config = kuberay_module_directory(binaries) / "config"
    files = [config / "manager" / "manager.yaml", *_files(config / "rbac", "role*", "service_account", "leader*")]
    objects = [item for file in files for item in yaml.safe_load_all(file.read_text())]
    for item in objects:
        if not item["kind"].startswith("Cluster"):
            item["metadata"]["namespace"] = OPERATOR_NAMESPACE
        for subject in item.get("subjects", ()):
            subject["namespace"] = OPERATOR_NAMESPACE
        if item["kind"] == "Deployment":
            template = item["spec"]["template"]["spec"]
            template["nodeSelector"] = {"group": "system"}
            template["containers"][0]["image"] = OPERATOR_IMAGE
    return objects


def _files(folder: Path, *patterns: str) -> Iterable[Path]:
    return (file for pattern in patterns for file in sorted(folder.glob(f"{pattern}.yaml")))


def ray_cluster(name: str, *, workers: int) -> Object:
    """A RayCluster whose head needs a general node and each worker a whole accelerated one."""

    def template(group: str, resources: dict[str, str]) -> Object:
        container = {
            "name": "ray",
            "image": "example.invalid/ray:2.42.1",
            "resources": {"limits": resources, "requests": resources},
        }
        return {"spec": {"containers": [container], "nodeSelector": {"group": group}}}

    head = template("head", {"cpu": "2", "memory": "8Gi"})
    worker = template("gpu", {"cpu": "64", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"})
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.42.1",
            "headGroupSpec": {"rayStartParams": {"dashboard-host": "127.0.0.1"}, "template": head},
            "workerGroupSpecs": [
                {
                    "groupName": "gpu-group",
                    "replicas": workers,
                    "minReplicas": 1,
                    "maxReplicas": 10,
                    "rayStartParams": {},
                    "template": worker,
                }
            ],
        },
    }


def _is_established(definition: Object) -> bool:
    """Whether a CustomResourceDefinition is served; `kubectl wait` fails on one that has no conditions yet."""
    conditions = definition.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
