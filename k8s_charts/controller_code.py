"""How a controller's code comes into its pod: a ConfigMap of the modules that it needs, in a plain Python image.

Its pod never waits for the Ray image, and a change of one controller leaves the others alone.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PACKAGE: Final = Path(__file__).resolve().parent.parent / "controllers"
ROOT: Final = "/opt/ray-on-hyperpod"
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

_IMPORT: Final = re.compile(rf"^from {PACKAGE.name}\.(\w+) import ", re.MULTILINE)


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


def code_volume(config_map: str, code: Mapping[str, str]) -> dict[str, Any]:
    """The volume `code`, to be mounted at `ROOT`."""
    items = [{"key": name, "path": f"{PACKAGE.name}/{name}"} for name in code]
    return {"name": "code", "configMap": {"name": config_map, "items": items}}


def python(module: str) -> dict[str, Any]:
    """What a container needs to run `controllers.<module>` from the volume `code`."""
    return {
        "command": ["python", "-B", "-m", f"{PACKAGE.name}.{module}"],
        "env": [{"name": "PYTHONPATH", "value": ROOT}],
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "code", "mountPath": ROOT, "readOnly": True}],
    }
