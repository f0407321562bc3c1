"""What the tests say to a cluster: kubectl, waiting, and the objects they create."""

import argparse
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from embedded_account.kubernetes.api import Api, ApiError
from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory
from embedded_account.kubernetes.control_plane import ControlPlane
from k8s_charts.shared.chart import ProjectChart
from ops.change import kuberay_crds
from stacks.shared.object_release import write_objects_chart
from tests.support.waiting import wait_until

Object = dict[str, Any]

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubelet")
GENERAL = {"cpu": "8", "memory": "30Gi", "pods": "14"}
ACCELERATED = {
    "cpu": "96",
    "memory": "1900Gi",
    "pods": "198",
    "nvidia.com/gpu": "8",
    "vpc.amazonaws.com/efa": "32",
}
OPERATOR_NAMESPACE = "kuberay"
OPERATOR_IMAGE = "quay.io/kuberay/operator:v1.2.0"
READY_CONDITION = '{.status.conditions[?(@.type=="Ready")].status}'


class Kubectl:
    """The real kubectl as cluster administrator; what it only reads comes without a process for each look."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._collections: dict[str, _Collection] = {}
        self._argv = [
            str(control_plane.binaries["kubectl"]),
            f"--kubeconfig={control_plane.admin_kubeconfig}",
        ]
        self._environment = {"HOME": str(control_plane.directory), "PATH": "/usr/bin:/bin"}

    def __call__(self, *arguments: str | Path, stdin: str | None = None) -> str:
        done = subprocess.run(
            [*self._argv, *map(str, arguments)],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A kubectl that goes on, with pipes for what it prints; leaving its context ends it."""
        argv = [*self._argv, *arguments]
        return _Ending(argv, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def apply(self, *objects: Object) -> None:
        self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, *arguments: str) -> Object:
        """Return what `kubectl get -o json` does: an object, or a list of objects of all kinds."""
        asked = _GET.parse_args(arguments)
        api, namespace = self._control_plane.api, "" if asked.A else asked.n
        paths = [self._collection(kind).path(namespace) for kind in asked.kinds.split(",")]
        if asked.name:
            return api.get(f"{paths[0]}/{asked.name}")
        lists = [api.get(path, **({"labelSelector": asked.l} if asked.l else {})) for path in paths]
        named = [(each["kind"].removesuffix("List"), each["apiVersion"], each["items"]) for each in lists]
        return {"items": [{"kind": kind, "apiVersion": version, **item} for kind, version, of in named for item in of]}

    def _collection(self, kind: str) -> "_Collection":
        """Find a kind by its plural, singular or short name, also one that was not served before."""
        if kind not in self._collections:
            self._collections = _discover(self._control_plane.api)
        return self._collections[kind]


_GET: Final = argparse.ArgumentParser("kubectl get", exit_on_error=False, add_help=False)
_GET.add_argument("-n", default="default")
_GET.add_argument("-A", action="store_true")
_GET.add_argument("-l")
_GET.add_argument("kinds")
_GET.add_argument("name", nargs="?")


def helm(control_plane: ControlPlane, *arguments: str | Path) -> str:
    """Run the real Helm as cluster administrator."""
    argv = [str(control_plane.binaries["helm"]), f"--kubeconfig={control_plane.admin_kubeconfig}"]
    environment = {"HOME": str(control_plane.directory), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*argv, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm {arguments}: {done.stderr}"
    return done.stdout


def install_objects(control_plane: ControlPlane, name: str, namespace: str, chart: ProjectChart) -> None:
    """Install a chart's objects as a release of their own, or upgrade it, as CDK's function does."""
    with TemporaryDirectory() as directory:
        own = write_objects_chart(Path(directory), name, chart)
        helm(control_plane, "upgrade", name, own, "--install", f"--namespace={namespace}")


@dataclass(frozen=True)
class _Collection:
    """Where the objects of a kind are."""

    group: str
    name: str
    namespaced: bool

    def path(self, namespace: str) -> str:
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.group}{inside}/{self.name}"


def _discover(api: Api) -> dict[str, _Collection]:
    """Map all names of all kinds; of two groups with the same name the first counts, as for kubectl."""
    versions = [group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]]
    found: dict[str, _Collection] = {}
    for group in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for each in _resources(api, group):
            collection = _Collection(group, each["name"], each["namespaced"])
            for name in (each["name"], each["singularName"], *each.get("shortNames", ())):
                found.setdefault(name, collection)
    return found


def _resources(api: Api, group: str) -> list[Object]:
    """Return what a group serves: nothing yet, while its definitions are being installed."""
    try:
        return list(api.get(group)["resources"])
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


class _Ending(subprocess.Popen[str]):
    """Killed when its context is left, however that happens."""

    def __exit__(self, *exception: Any) -> None:
        self.kill()
        super().__exit__(*exception)


def pod(name: str, **spec: Any) -> Object:
    """A pod of one container that does nothing; `spec` overrides."""
    container = {"name": "main", "image": "example.invalid/image:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]} | spec}


def operator_pod(name: str, **container: Any) -> Object:
    """A bare pod with the operator's image, whose service account may do nothing."""
    own = {"name": "manager", "image": OPERATOR_IMAGE, "command": ["/manager"]}
    return pod(name, containers=[own | container], terminationGracePeriodSeconds=1)


def process_of(control_plane: ControlPlane) -> int:
    """Pid of the process that the kubelet started last."""
    log = (control_plane.logs / "kubelet.log").read_text()
    started = [line for line in log.splitlines() if "as process" in line]
    return int(started[-1].split()[-1])


def definitions(binaries: Binaries) -> list[Object]:
    """KubeRay's definitions of its kinds; the two larger ones without what stands in them of RayCluster's."""
    clusters, *others = kuberay_crds.read(kuberay_module_directory(binaries) / "config" / "crd" / "bases")
    return [dict(clusters), *map(_shortened, others)]


def _shortened(definition: Mapping[str, Any]) -> Object:
    spec = definition["spec"]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [version | {"schema": {"openAPIV3Schema": schema}} for version in spec["versions"]]
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
