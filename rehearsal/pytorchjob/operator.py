"""Run Kubeflow's real training operator beside a control plane, with the rights that its own manifests give it."""

from pathlib import Path
from typing import Final

import yaml

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.kubeconfig import write_kubeconfig
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import ProcessSupervisor, free_port

NAMESPACE: Final = "kubeflow"
_ACCOUNT: Final = "training-operator"
_DEFINITION: Final = "kubeflow.org_pytorchjobs.yaml"
_RBAC: Final = ("role.yaml", "cluster-role-binding.yaml", "service-account.yaml")
_TOKEN_SECONDS: Final = 24 * 3600


def objects(built: Binaries) -> list[Object]:
    """Return the definition of PyTorchJobs, and the operator's namespace, account and roles, from its Go module."""
    base = binaries.training_operator_module_directory(built) / "manifests" / "base"
    files = [base / "crds" / _DEFINITION, *(base / "rbac" / name for name in _RBAC)]
    found: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    for file in files:
        found += [item for item in yaml.safe_load_all(file.read_text()) if item]
    for item in found:
        if item["kind"] == "ServiceAccount":
            item["metadata"]["namespace"] = NAMESPACE
        for subject in item.get("subjects", ()):
            subject["namespace"] = NAMESPACE
    return found


def start(plane: ControlPlane, built: Binaries, supervisor: ProcessSupervisor, directory: Path) -> None:
    """Start the operator as its service account; `supervisor` ends it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
    token = plane.api.create(path, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})["status"]["token"]
    authority, kubeconfig = directory / "operator-ca.pem", directory / "operator.kubeconfig"
    authority.write_bytes(plane.ca_pem)
    cluster = {"server": plane.endpoint, "certificate-authority": str(authority)}
    write_kubeconfig(kubeconfig, "operator", cluster, {"token": str(token)})
    argv = [
        str(built["training-operator"]),
        f"--kubeconfig={kubeconfig}",
        # HyperPod's chart enables other kinds, too.
        "--enable-scheme=pytorchjob",
        f"--metrics-bind-address=127.0.0.1:{free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{free_port()}",
    ]
    supervisor.start("training-operator", argv, {"PATH": search_path(), "HOME": str(directory)})
