"""The newer version of the controllers that a run must survive."""

import dataclasses

import pytest

from config import load
from embedded_account.kubernetes.api import Object
from k8s_charts.controllers.code import digest
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.kubectl import rendered
from rehearsal.drills.cluster.upgrade import newer

pytestmark = pytest.mark.product

CODE = {"__init__.py": "", "reaper.py": "print('reaper')\n"}
MAP = {"kind": "ConfigMap", "metadata": {"name": "ray-reaper-code"}, "data": CODE}


def place(item: Object) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def test_newer_version_changes_the_code_and_the_hashes_of_its_pods_only() -> None:
    ray = objects.ray_objects(load("dev"))
    parts = [getattr(ray, field.name) for field in dataclasses.fields(ray) if field.name != "clusters"]
    before = rendered(*(chart for part in parts for chart in (part.values() if isinstance(part, dict) else [part])))
    after = {place(each): each for each in newer(before)}
    changed = {each["metadata"]["name"] for each in before if after[place(each)] != each}
    assert len(after) == len(before)
    controllers = {"ray-reaper", "job-supervisor", "rayjob-submitter"}
    assert changed == controllers | {f"{each}-code" for each in controllers}


def test_code_whose_hash_no_object_carries_is_refused() -> None:
    other = {"kind": "Deployment", "metadata": {"name": "ray-reaper"}, "spec": {"code": "0123456789abcdef"}}
    with pytest.raises(ValueError, match=f"no object carries {digest(CODE)}, the hash of ConfigMap ray-reaper-code"):
        newer([MAP, other])
