"""Let tests call a control plane with the real kubectl and Helm; build the pods that tests create."""

import argparse
import json
import subprocess
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError
from embedded_account.kubernetes.control_plane import ControlPlane

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
OPERATOR_IMAGE = "quay.io/kuberay/operator:v1.2.0"
PYTHON_IMAGE = "public.ecr.aws/docker/library/python:3.13-slim"
"""OPERATOR_IMAGE and PYTHON_IMAGE are images of pods that really run (kubernetes/pods/programs.py)."""


class Kubectl:
    """The real kubectl as cluster administrator; `get` calls the API directly, without a process for each read."""

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
        """Start kubectl without waiting for it; return the process, with pipes for stdout and stderr.

        Leaving the process's context kills it.
        """
        argv = [*self._argv, *arguments]
        return _Ending(argv, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def apply(self, *objects: Object) -> None:
        # JSON: PyYAML writes a text such as 1e5 without quotes, which kubectl's YAML takes for a number.
        self("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)))

    def get(self, *arguments: str) -> Object:
        """Return the result of `kubectl get -o json`: one object, or a list of objects of all requested kinds."""
        asked = _GET.parse_args(arguments)
        api, namespace = self._control_plane.api, "" if asked.A else asked.n
        paths = [self._collection(kind).path(namespace) for kind in asked.kinds.split(",")]
        if asked.name:
            return api.get(f"{paths[0]}/{asked.name}")
        lists = [api.get(path, **({"labelSelector": asked.l} if asked.l else {})) for path in paths]
        named = [(each["kind"].removesuffix("List"), each["apiVersion"], each["items"]) for each in lists]
        return {"items": [{"kind": kind, "apiVersion": version, **item} for kind, version, of in named for item in of]}

    def _collection(self, kind: str) -> "_Collection":
        """Return a kind by its plural, singular or short name; repeat the discovery if the kind is unknown."""
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
    """Run the real Helm as cluster administrator; return its output."""
    argv = [str(control_plane.binaries["helm"]), f"--kubeconfig={control_plane.admin_kubeconfig}"]
    environment = {"HOME": str(control_plane.directory), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*argv, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm {arguments}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class _Collection:
    """The API path of the objects of a kind."""

    group: str
    name: str
    namespaced: bool

    def path(self, namespace: str) -> str:
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.group}{inside}/{self.name}"


def _discover(api: KubernetesClient) -> dict[str, _Collection]:
    """Map every name of every kind to its path; if two groups use a name, the first wins, as with kubectl."""
    versions = [group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]]
    found: dict[str, _Collection] = {}
    for group in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for each in _resources(api, group):
            collection = _Collection(group, each["name"], each["namespaced"])
            for name in (each["name"], each["singularName"], *each.get("shortNames", ())):
                found.setdefault(name, collection)
    return found


def _resources(api: KubernetesClient, group: str) -> list[Object]:
    """Return the resources that an API group serves; an empty list while its definitions are being installed."""
    try:
        return list(api.get(group)["resources"])
    except KubernetesClientError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


class _Ending(subprocess.Popen[str]):
    """A process that is killed whenever its context is left."""

    def __exit__(self, *exception: Any) -> None:
        self.kill()
        super().__exit__(*exception)


def pod(name: str, **spec: Any) -> Object:
    """Return a pod with one container that does nothing; `spec` overrides fields of the pod's spec."""
    container = {"name": "main", "image": "example.invalid/image:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]} | spec}


def operator_pod(name: str, **container: Any) -> Object:
    """Return a bare pod with the operator's image, whose service account has no permissions."""
    own = {"name": "manager", "image": OPERATOR_IMAGE, "command": ["/manager"]}
    return pod(name, containers=[own | container], terminationGracePeriodSeconds=1)


def process_of(control_plane: ControlPlane) -> int:
    """Return the pid of the process that the kubelet started last."""
    log = (control_plane.logs / "kubelet.log").read_text()
    started = [line for line in log.splitlines() if "as process" in line]
    return int(started[-1].split()[-1])
