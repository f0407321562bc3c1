"""Losses of nodes and file systems between two folders of templates."""

import json
from pathlib import Path
from typing import Any

from ops.review.losses import losses


def write(folder: Path, template: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "s.template.json").write_text(json.dumps(template))


def warnings(root: Path, name: str) -> list[str]:
    return list(losses(root / "base" / name, root / "head" / name, name))


def hyperpod(**counts: int) -> dict[str, Any]:
    """Return a template with a HyperPod cluster of these groups."""
    groups = [{"InstanceGroupName": name, "InstanceCount": count} for name, count in counts.items()]
    return {"Resources": {"Cluster": {"Type": "Custom::HyperPodCluster", "Properties": {"InstanceGroups": groups}}}}


def test_removing_nodes_is_warned_of_with_the_command_that_drains_them(tmp_path: Path) -> None:
    write(tmp_path / "base" / "dev", hyperpod(head=1, workers=4, spare=2))
    write(tmp_path / "head" / "dev", hyperpod(head=1, workers=2))
    text = "\n".join(warnings(tmp_path, "dev"))
    assert "**Instance group workers goes from 4 to 2 nodes.**" in text
    assert "first run `ops scale workers 2 --env dev`" in text
    assert "nodes outside the stack, the deployment is refused" in text
    assert "**Instance group spare is removed with its 2 nodes**" in text
    assert len(warnings(tmp_path, "dev")) == 2


def test_more_nodes_and_new_groups_are_no_warning(tmp_path: Path) -> None:
    write(tmp_path / "base" / "dev", hyperpod(workers=4))
    write(tmp_path / "head" / "dev", hyperpod(workers=5, spare=2))
    assert warnings(tmp_path, "dev") == []


def storage(*, throughput: int = 250, **lustre: Any) -> dict[str, Any]:
    """Return a template with a file system of these settings."""
    properties = {
        "SubnetIds": ["subnet-1"],
        "StorageCapacity": lustre.pop("capacity", 1200),
        "LustreConfiguration": {"PerUnitStorageThroughput": throughput, "DataCompressionType": "LZ4", **lustre},
    }
    return {"Resources": {"Shared": {"Type": "AWS::FSx::FileSystem", "Properties": properties}}}


def test_a_file_system_that_would_be_replaced_is_warned_of_with_what_replaces_it(tmp_path: Path) -> None:
    write(tmp_path / "base" / "dev", storage(throughput=250))
    write(tmp_path / "head" / "dev", storage(throughput=500))
    text = "\n".join(warnings(tmp_path, "dev"))
    assert "**File system Shared is replaced** (PerUnitStorageThroughput)" in text
    assert "refuses this while the ray stack uses the old file system" in text
    assert len(warnings(tmp_path, "dev")) == 1


def test_efa_of_an_existing_file_system_is_warned_of(tmp_path: Path) -> None:
    write(tmp_path / "base" / "dev", storage())
    write(tmp_path / "head" / "dev", storage(EfaEnabled=True))
    text = "\n".join(warnings(tmp_path, "dev"))
    assert "**File system Shared changes EfaEnabled**" in text
    assert len(warnings(tmp_path, "dev")) == 1


def test_growth_compression_and_a_first_file_system_are_no_warning(tmp_path: Path) -> None:
    write(tmp_path / "base" / "dev", storage())
    write(tmp_path / "head" / "dev", storage(capacity=2400, DataCompressionType="NONE"))
    write(tmp_path / "base" / "other", {"Resources": {}})
    write(tmp_path / "head" / "other", storage(EfaEnabled=True))
    assert warnings(tmp_path, "dev") == warnings(tmp_path, "other") == []
