"""Build stand-ins for the pinned Helm charts, for rehearsals on a machine without the publishers' charts.

Simulated: names, placement, requests and accepted values are the publishers', but nothing runs in their pods except the
real KubeRay operator. KubeRay's CRDs and permissions are those of its Go module, so that the real operator runs with
the real ones; only objects of the deprecated v1alpha1 may have any field. A value that a chart does not know is
refused; the publishers' charts would ignore it.
"""

import re
import shutil
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from config.facts import charts_lock, versions
from config.facts.daemonsets import NodeScope, daemonsets_on
from config.facts.instance_types import catalogue
from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory

_TEMPLATES: Final = Path(__file__).with_name("charts")
_KUBERAY: Final = "kuberay-operator"
_V1ALPHA1_FIELDS: Final = re.compile(r"(?<=name: v1alpha1\n    schema:\n)(?:(?: {6}.*)?\n)+")
_ANY_FIELD: Final = """\
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
"""


def build(directory: Path, binaries: Binaries, kuberay: str = versions.KUBERAY) -> None:
    """Write a stand-in for each chart of the lock to `directory`/<name>, and replace existing ones.

    `kuberay` is the version of KubeRay's chart, whose operator the binaries hold.
    """
    for name in {chart.name for chart in charts_lock.locked()}:
        _write_chart(directory / name, name, kuberay if name == _KUBERAY else None)
    _add_kuberay_objects(directory / _KUBERAY, kuberay_module_directory(binaries))
    _add_agents(directory / "HyperPodHelmChart" / "values.yaml")


def add_kuberay(directory: Path, binaries: Binaries, version: str) -> None:
    """Write a stand-in for KubeRay's chart of a further version, from the build of its operator."""
    target = directory / f"{_KUBERAY}-{version}"
    _write_chart(target, _KUBERAY, version)
    _add_kuberay_objects(target, kuberay_module_directory(binaries))


def _write_chart(target: Path, name: str, version: str | None) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(_TEMPLATES / name, target)
    description = {
        "apiVersion": "v2",
        "name": name.lower(),
        "version": charts_lock.find(name, version).version,
        "description": "REHEARSAL ONLY: a stand-in for the publisher's chart",
    }
    _write(target / "Chart.yaml", [description])


def _add_kuberay_objects(chart: Path, module: Path) -> None:
    crds = chart / "crds"
    crds.mkdir()
    for file in sorted((module / "config" / "crd" / "bases").glob("*.yaml")):
        (crds / file.name).write_text(without_v1alpha1_fields(file.read_text()))
    documents = []
    for file in sorted((module / "config" / "rbac").glob("*.yaml")):
        documents += [document for document in _read(file) if "metadata" in document]
    for document in documents:
        for subject in document.get("subjects", []):
            subject["namespace"] = "{{ .Release.Namespace }}"
    _write(chart / "templates" / "rbac.yaml", documents)


def without_v1alpha1_fields(definition: str) -> str:
    """Return a CRD of KubeRay, as YAML text, that lets objects of v1alpha1 have any field; v1 stays whole.

    Half of KubeRay's CRDs describes v1alpha1, which neither the project nor the operator uses. The API server spends
    seconds on it: with each change of a CRD it converts, compares and publishes all fields of all versions.
    """
    # As text: to read all CRDs takes a second.
    return _V1ALPHA1_FIELDS.sub(_ANY_FIELD, definition)


def _add_agents(values: Path) -> None:
    """Give the chart its DaemonSets' requests, and the instance types that the publisher's chart runs each on."""
    document = _read(values)[0]
    for name, found in agents().items():
        document["standIn"]["agents"][name] |= found
    _write(values, [document])


def agents() -> dict[str, dict[str, Any]]:
    """Return requests and instance types of the DaemonSets that do not run on all nodes, by name."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in catalogue().items():
        for daemonset in daemonsets_on(kind):
            if daemonset.nodes is not NodeScope.ALL:
                requests = {"cpu": f"{daemonset.cpu_millis}m", "memory": f"{daemonset.memory_mib}Mi"}
                found.setdefault(daemonset.name, {"requests": requests, "types": []})["types"].append(name)
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    return [document for document in YAML(typ="safe", pure=True).load_all(path.read_text()) if document]


def _write(path: Path, documents: list[dict[str, Any]]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 1000
    with path.open("w") as file:
        yaml.dump_all(documents, file)
