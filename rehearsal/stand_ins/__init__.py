"""Build stand-ins for the pinned Helm charts, for rehearsals on a machine without the publishers' charts.

Simulated: names, placement, requests and accepted values are the publishers', but nothing runs in their pods except the
real KubeRay operator. KubeRay's CRDs and permissions are those of its Go module, so that the real operator runs with
the real ones. A value that a chart does not know is refused; the publishers' charts would ignore it.
"""

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


def build(directory: Path, binaries: Binaries, kuberay: str = versions.KUBERAY) -> None:
    """Write a stand-in for each chart of the lock to `directory`/<name>, and replace existing ones.

    `kuberay` is the version of KubeRay's chart, whose operator the binaries hold.
    """
    for name in {chart.name for chart in charts_lock.locked()}:
        target = directory / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(_TEMPLATES / name, target)
        description = {
            "apiVersion": "v2",
            "name": name.lower(),
            "version": charts_lock.find(name, kuberay if name == _KUBERAY else None).version,
            "description": "REHEARSAL ONLY: a stand-in for the publisher's chart",
        }
        _write(target / "Chart.yaml", [description])
    _add_kuberay_objects(directory / _KUBERAY, kuberay_module_directory(binaries))
    _add_agents(directory / "HyperPodHelmChart" / "values.yaml")


def _add_kuberay_objects(chart: Path, module: Path) -> None:
    shutil.copytree(module / "config" / "crd" / "bases", chart / "crds")
    documents = []
    for file in sorted((module / "config" / "rbac").glob("*.yaml")):
        documents += [document for document in _read(file) if "metadata" in document]
    for document in documents:
        for subject in document.get("subjects", []):
            subject["namespace"] = "{{ .Release.Namespace }}"
    _write(chart / "templates" / "rbac.yaml", documents)


def _add_agents(values: Path) -> None:
    """Give the chart its DaemonSets' requests, and the instance types that the publisher's chart runs each on."""
    document = _read(values)[0]
    agents: dict[str, Any] = {}
    for name, kind in catalogue().items():
        for daemonset in daemonsets_on(kind):
            if daemonset.nodes is not NodeScope.ALL:
                requests = {"cpu": f"{daemonset.cpu_millis}m", "memory": f"{daemonset.memory_mib}Mi"}
                agents.setdefault(daemonset.name, {"requests": requests, "types": []})["types"].append(name)
    document["standIn"] = {"agents": agents}
    _write(values, [document])


def _read(path: Path) -> list[dict[str, Any]]:
    return [document for document in YAML(typ="safe", pure=True).load_all(path.read_text()) if document]


def _write(path: Path, documents: list[dict[str, Any]]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 1000
    with path.open("w") as file:
        yaml.dump_all(documents, file)
