"""How a controller's code comes into its pod: a ConfigMap of the modules that it needs, in a plain Python image.

Its pod never waits for the Ray image, and a change of one controller leaves the others alone.
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
# The volume's name too: in the rehearsal that becomes its folder's.
_NAME: Final = PACKAGE.name
_MOUNT: Final = f"/opt/ray-on-hyperpod/{_NAME}"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

# Any that is nobody's on the nodes.
_USER: Final = 65532
POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}

# Helm keeps a release's record in its namespace, and knows by both that the objects are its own.
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

    The stack applies them as a Helm release whose chart is an asset: a template carries the asset's hash.
    """

    def __init__(self, scope: Construct, id: str, *, controllers: Sequence[ControllerCode]) -> None:
        super().__init__(scope, id)
        for controller in controllers:
            metadata = cdk8s.ApiObjectMetadata(name=controller.name, namespace=controller.namespace)
            made = cdk8s.ApiObject(self, controller.name, api_version="v1", kind="ConfigMap", metadata=metadata)
            made.add_json_patch(cdk8s.JsonPatch.add("/data", code_of(controller.module)))


def code_of(module: str) -> dict[str, str]:
    """Return the text of `controllers.<module>` and of all that it imports of the package, by file name.

    Raises FileNotFoundError when a module is missing.
    """
    code: dict[str, str] = {}
    wanted = ["__init__", module]
    while wanted:
        name = wanted.pop()
        text = (PACKAGE / f"{name}.py").read_text()
        code[f"{name}.py"] = text
        wanted += [found for found in _IMPORT.findall(text) if f"{found}.py" not in code]
    return dict(sorted(code.items()))


def digest(code: Mapping[str, str]) -> str:
    """A hash for the pod's template: a pod does not notice that its code changed."""
    return hashlib.sha256("\0".join(code.values()).encode()).hexdigest()[:16]


def code_volume(config_map: str) -> dict[str, Any]:
    """The volume of the code.

    All files, whatever their names: a pod made from a template of before a deployment finds the newer code whole.
    """
    return {"name": _NAME, "configMap": {"name": config_map}}


def python(module: str) -> dict[str, Any]:
    """What a container needs to run `controllers.<module>` from the volume of the code."""
    return {
        "command": ["python", "-B", "-m", f"{_NAME}.{module}"],
        # By way of the mount: the rehearsal's kubelet mounts nothing, and replaces a mount path by that of a folder.
        "env": [{"name": "PYTHONPATH", "value": f"{_MOUNT}/.."}],
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": _NAME, "mountPath": _MOUNT, "readOnly": True}],
    }
