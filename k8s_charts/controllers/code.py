"""The ConfigMaps of the controllers' code; each pod mounts one into a plain Python image.

A pod therefore never waits for the Ray image. A ConfigMap holds only the modules that its controller imports, so a
change of one controller leaves the others alone.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cdk8s
from constructs import Construct

from k8s_charts.shared.chart import ProjectChart

PACKAGE: Final = Path(__file__).resolve().parents[2] / "controllers"
# Also the volume's name, because the rehearsal names the volume's folder after the volume.
_NAME: Final = PACKAGE.name
_MOUNT: Final = f"/opt/ray-on-hyperpod/{_NAME}"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

# A user id that no user of the nodes has.
_USER: Final = 65532
POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}

# Helm recognises the objects as its own by the release's name and by the namespace of the release's record.
RELEASE: Final = "controller-code"

_IMPORT: Final = re.compile(rf"^from {PACKAGE.name}\.(\w+) import ", re.MULTILINE)


@dataclass(frozen=True)
class ControllerCode:
    """The code of `controllers.<module>`, as ConfigMap `name` in the namespace of its pods."""

    module: str
    name: str
    namespace: str


class ControllerCodeChart(ProjectChart):
    """A ConfigMap of code for each controller.

    The stack applies them as a Helm release whose chart is an asset, so a template holds only the asset's hash.
    """

    def __init__(self, scope: Construct, id: str, *, controllers: Sequence[ControllerCode]) -> None:
        super().__init__(scope, id)
        for controller in controllers:
            metadata = cdk8s.ApiObjectMetadata(name=controller.name, namespace=controller.namespace)
            made = cdk8s.ApiObject(self, controller.name, api_version="v1", kind="ConfigMap", metadata=metadata)
            made.add_json_patch(cdk8s.JsonPatch.add("/data", code_of(controller.module)))


def code_of(module: str) -> dict[str, str]:
    """Return the text of `controllers.<module>` and of all modules of the package that it imports, by file name.

    Raises FileNotFoundError if a module is missing.
    """
    code: dict[str, str] = {}
    wanted = ["__init__", module]
    while wanted:
        name = wanted.pop()
        text = _file(name).read_text()
        code[f"{name}.py"] = text
        wanted += [found for found in _IMPORT.findall(text) if f"{found}.py" not in code]
    return dict(sorted(code.items()))


def _file(module: str) -> Path:
    """Return the file of a module; in a pod, modules of the package's folders are beside the others."""
    return (
        next(iter(PACKAGE.glob(f"*/{module}.py")), PACKAGE / f"{module}.py")
        if module != "__init__"
        else PACKAGE / "__init__.py"
    )


def digest(code: Mapping[str, str]) -> str:
    """Return a hash of the code for the pod's template: without it, changed code would not restart the pod."""
    return hashlib.sha256("\0".join(code.values()).encode()).hexdigest()[:16]


def code_volume(config_map: str) -> dict[str, Any]:
    """Return the volume of the code.

    It mounts all files of the ConfigMap without naming them, so a pod of an older template gets all newer modules.
    """
    return {"name": _NAME, "configMap": {"name": config_map}}


def python(module: str) -> dict[str, Any]:
    """Return the container fields that run `controllers.<module>` from the volume of the code."""
    return {
        "command": ["python", "-B", "-m", f"{_NAME}.{module}"],
        # Relative to the mount path: the rehearsal's kubelet mounts nothing, but replaces mount paths by folders.
        "env": [{"name": "PYTHONPATH", "value": f"{_MOUNT}/.."}],
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": _NAME, "mountPath": _MOUNT, "readOnly": True}],
    }
