"""The objects of Helm releases: those that the project wrote into a chart, and those that Helm renders."""

import atexit
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from ops.review import yaml_bounds
from ops.review.assembly import Assembly
from ops.review.checkouts.cdk import ReviewError
from ops.review.kubernetes.objects import ApplyingResource, KubernetesObject, document, literal, objects_of

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_IN_LAYER: Final = "helm/helm"
_TIMEOUT_SECONDS: Final = 120
# The one template of stacks/shared/files_chart.py: Helm copies the files and renders nothing.
_COPIES: Final = """\
{{- range $path, $content := .Files.Glob "files/*.yaml" }}
---
{{ $content | toString }}
{{- end }}
"""
_OF_COPIES: Final = {"Chart.yaml", "files", "templates"}


@dataclass(frozen=True)
class RenderedRelease:
    """A Helm release of one side; `objects` is None if nobody could render its chart."""

    source: ApplyingResource
    values: Mapping[str, Any]
    chart: Path | None
    objects: tuple[KubernetesObject, ...] | None = None
    error: str = field(default="", compare=False)
    """What Helm says, if the chart does not render. A chart may ask the cluster for objects, which no review has."""

    @property
    def invalid(self) -> bool:
        """Return whether the chart's own schema refuses the values."""
        return "don't meet the specifications of the schema" in self.error

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return Chart.yaml; empty if the assembly lacks the chart."""
        path = self.chart / "Chart.yaml" if self.chart else None
        found = _yaml(path.read_text(), path) if path and path.is_file() else [{}]
        return found[0] if found and isinstance(found[0], Mapping) else {}


def release(source: ApplyingResource, assembly: Assembly, helm: Path | None) -> RenderedRelease:
    """Return a release with its objects, rendered by the program `helm` where that is necessary.

    Raises ReviewError if its values or the project's own objects cannot be read.
    """
    where = f"Values of {source.logical_id} in stack {source.stack}"
    values = document(source.properties.get("Values", "{}"), where)
    if not isinstance(values, Mapping):
        raise ReviewError(f"{where} are no mapping. Fix: synthesise the checkout again")
    chart = _chart(source, assembly)
    if chart is None:
        return RenderedRelease(source, values, None)
    if own := _copied(chart):
        documents = [each for file in own for each in _yaml(file.read_text(), file)]
        return RenderedRelease(source, values, chart, tuple(objects_of(documents, source, str(chart))))
    return _rendered(source, values, chart, helm) if helm else RenderedRelease(source, values, chart)


def helm_program(assemblies: Sequence[Assembly]) -> Path | None:
    """Return Helm: the one that the deployment runs, from an assembly's layer, or the one on PATH; None without both.

    CDK's layer holds programs for Linux on x86-64. A foreign assembly's is not run.
    """
    layer = next((found for each in assemblies if not each.foreign and (found := _layer(each))), None)
    if layer is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        installed = shutil.which("helm")
        return Path(installed) if installed else None
    # The layer's name is the hash of its content: Helm's 60 MB are unpacked once for all environments.
    if layer.name not in _programs:
        _programs[layer.name] = _unpacked_program(layer)
    return _programs[layer.name]


_programs: Final[dict[str, Path]] = {}
"""The unpacked programs by their layer's name."""


def _unpacked_program(layer: Path) -> Path:
    scratch = tempfile.mkdtemp(prefix="helm-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    with zipfile.ZipFile(layer) as archive:
        program = Path(archive.extract(_IN_LAYER, scratch))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def _layer(assembly: Assembly) -> Path | None:
    for path in sorted(assembly.directory.glob("asset.*.zip")):
        with zipfile.ZipFile(path) as archive:
            if _IN_LAYER in archive.namelist():
                return path
    return None


def _rendered(source: ApplyingResource, values: Mapping[str, Any], chart: Path, helm: Path) -> RenderedRelease:
    name, namespace = (literal(source.properties.get(key, "default")) for key in ("Release", "Namespace"))
    with tempfile.TemporaryDirectory() as scratch:
        readable = _readable(chart, Path(scratch))
        file = Path(scratch, "values.yaml")
        # JSON: PyYAML writes a text such as 1e5 without quotes, which Helm takes for a number.
        file.write_text(json.dumps(dict(values)))
        # A name such as `--post-renderer=…` would be an option, with a program to run.
        options = ["--namespace", namespace, "--values", str(file)]
        argv = [str(helm), "template", *options, "--", name, str(readable)]
        # Helm reads no plugin, cache or credentials of this machine.
        env = {"PATH": os.environ.get("PATH", ""), "HOME": scratch}
        try:
            done = subprocess.run(argv, env=env, text=True, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReviewError(f"{helm} cannot render {name}: {error}. Fix: install Helm on PATH") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("Use --debug")]
        return RenderedRelease(source, values, chart, error=" ".join(lines).replace(scratch, "") or "no message")
    bodies = [_in_namespace(body, namespace) for body in _yaml(done.stdout, chart)]
    return RenderedRelease(source, values, chart, tuple(objects_of(bodies, source, str(chart))))


def _in_namespace(body: Any, namespace: str) -> Any:
    """Return the object with the namespace in which Helm creates it, unless its kind has none."""
    if (
        not isinstance(body, Mapping)
        or body.get("kind") in CLUSTER_KINDS
        or not isinstance(body.get("metadata"), Mapping)
    ):
        return body
    return {**body, "metadata": {"namespace": namespace, **body["metadata"]}}


CLUSTER_KINDS: Final = frozenset(
    {
        "APIService",
        "CSIDriver",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
"""Kinds whose objects have no namespace."""


def _chart(source: ApplyingResource, assembly: Assembly) -> Path | None:
    found = _DIGEST.search(literal(source.properties.get("ChartAssetURL", "")))
    return assembly.asset(found[0]) if found else None


def _readable(chart: Path, scratch: Path) -> Path:
    """Return the chart as Helm reads it: a folder or a package as it is, CDK's zip file unpacked into `scratch`."""
    if not zipfile.is_zipfile(chart):
        return chart
    target = scratch / "chart"
    with zipfile.ZipFile(chart) as archive:
        archive.extractall(target)
    inside = sorted(target.rglob("Chart.yaml"), key=lambda path: len(path.parts))
    return inside[0].parent if inside else target


def _copied(chart: Path) -> list[Path]:
    """Return the files of objects in a chart that only copies them; empty for any other chart."""
    templates = sorted((chart / "templates").glob("*")) if chart.is_dir() else []
    copies = len(templates) == 1 and templates[0].read_text() == _COPIES
    # Helm also installs what lies in `crds` and in `charts`.
    copies = copies and {each.name for each in chart.iterdir()} <= _OF_COPIES
    return sorted((chart / "files").glob("*.yaml")) if copies else []


def _yaml(text: str, path: Path) -> list[Any]:
    try:
        found = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
        yaml_bounds.require_few_values(text, found)
    except yaml_bounds.BoundError as error:
        raise ReviewError(f"{path} is refused. Fix: write it with fewer aliases. {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ReviewError(f"{path} is not YAML: {error}. Fix: synthesise the checkout again") from error
    return found
