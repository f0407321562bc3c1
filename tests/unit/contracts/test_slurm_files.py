"""Files on a Slurm node: what our scripts and commands read, and what the simulator writes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from embedded_account.hyperpod import instance_types
from embedded_account.hyperpod.model import Node, NodeSubnet, SimulatedCluster, SimulatedGroup
from embedded_account.hyperpod.slurm.scripts import resource_config
from lifecycle_scripts.slurm import read_inputs
from ops.environment import provisioning_parameters
from rehearsal.slurm.configuration import ConfiguredGroup, nodes
from rehearsal.slurm.scripted import DeployedScripts, folder
from tests.unit.contracts.contract import read

FACTS: Final = read("slurm_files")
HEAD, GPU, AGENT = "10.1.0.10", "10.1.0.20", "172.16.0.20"
COMMON: Final = Path(read_inputs.__file__).with_name("common.sh").read_text()


def instance(group: str, address: str) -> dict[str, str]:
    """Return an instance with the published keys."""
    name = FACTS["instance_name"].format(group=group, index=FACTS["first_index"])
    values = dict.fromkeys(FACTS["instance_keys"], AGENT) | {"InstanceName": name, "InstanceId": "i-0"}
    return values | {FACTS["own_address"]: address}


def published_file(empty: str | None) -> dict[str, Any]:
    """Return resource_config.json with a group that has no instances: null, or no key."""
    found = {"head": [instance("head", HEAD)], "gpu": [instance("gpu", GPU)], "new": None}
    keys: dict[str, Any] = dict.fromkeys(FACTS["group_keys"], "")
    groups = [keys | {"Name": name, "Instances": instances} for name, instances in found.items()]
    if empty == "absent":
        del groups[-1]["Instances"]
    slurm = {FACTS["slurm_config"]: dict.fromkeys(FACTS["slurm_config_keys"], HEAD)}
    cluster = {FACTS["cluster"]: dict.fromkeys(FACTS["cluster_keys"], "ml")}
    return {**cluster, FACTS["groups"]: groups, **FACTS["orchestrator"], **slurm}


def published_parameters() -> dict[str, Any]:
    """Return provisioning_parameters.json with the published keys."""
    group, partition = FACTS["worker_group_keys"]
    workers = [{group: "gpu", partition: "dev"}, {group: "cpu", partition: None}][: 1 + FACTS["partition_nullable"]]
    values = {"controller_group": "head", "worker_groups": workers, "workload_manager": FACTS["workload_manager"]}
    others = {"fsx_dns_name": "fs-0.fsx.us-west-2.amazonaws.com", "fsx_mountname": "abc", FACTS["login_group"]: "login"}
    return dict.fromkeys(FACTS["parameters_required"], "1.0.0") | values | others


@pytest.mark.parametrize("empty", FACTS["group_without_instances"])
def test_product_reads_the_published_keys(tmp_path: Path, empty: str | None) -> None:
    config, parameters = tmp_path / "resource_config.json", tmp_path / FACTS["provisioning_parameters"]
    config.write_text(json.dumps(published_file(empty)))
    parameters.write_text(json.dumps(published_parameters()))
    found = read_inputs.node(str(config), str(parameters), [GPU])
    assert (found["group"], found["role"], found["controllers"]) == ("gpu", "compute", HEAD)
    assert read_inputs.node(str(config), str(tmp_path / "none"), [HEAD])["way"] == "api"
    with pytest.raises(SystemExit, match=AGENT):
        read_inputs.node(str(config), str(parameters), [AGENT])


def test_product_looks_where_hyperpod_writes() -> None:
    path, variable = FACTS["resource_config"], FACTS["resource_config_variable"]
    assert f"resource_config=${{{variable}:-$root{path}}}" in COMMON
    assert f'"$here/{FACTS["provisioning_parameters"]}"' in COMMON


def test_product_imports_the_published_parameters(tmp_path: Path) -> None:
    file = tmp_path / FACTS["provisioning_parameters"]
    file.write_text(json.dumps(published_parameters()))
    found = provisioning_parameters.read(file).nodes
    assert {name: node["node"] for name, node in found.items()} == {
        **{"gpu": "compute", "cpu": "compute"},
        **{"head": "controller", "login": "login"},
    }


def simulated(eks_name: str = "") -> dict[str, Any]:
    """Return the embedded account's file for a controller, a compute node and an empty group."""
    now, kinds = datetime.now(UTC), {"head": "Controller", "gpu": "Compute", "new": "Compute"}
    groups = {
        name: SimulatedGroup(
            {"InstanceGroupName": name, "InstanceType": "ml.c5.xlarge", "SlurmConfig": {"NodeType": kind}}
        )
        for name, kind in kinds.items()
    }
    cluster = SimulatedCluster("ml", "arn:aws:sagemaker:us-west-2:1:cluster/abc", {}, groups, now, eks_name)
    kind = instance_types.find("ml.c5.xlarge")
    assert kind
    subnet = NodeSubnet("subnet-0", "vpc-0", "us-west-2a", "usw2-az1")
    for name, address in (("head", HEAD), ("gpu", GPU)):
        cluster.nodes[name] = Node(f"i-{name}", name, kind, 1, now, subnet, (), "eni-0", address)
    return resource_config(cluster)


def rehearsed(where: Path) -> dict[str, Any]:
    """Return the file of the rehearsal with real Slurm, whose cluster has a controller and a compute node."""
    made = nodes([ConfiguredGroup("head", 1, "controller"), ConfiguredGroup("gpu", 1, "compute", "dev")])
    scripts = DeployedScripts({"options": b"MOUNT_POINT=/fsx\n"}, "fs-0@tcp:/abc", "/fsx")
    root = folder(scripts, where, made[1], made, ()).root
    return dict(json.loads((root / FACTS["resource_config"].lstrip("/")).read_text()))


@pytest.mark.parametrize("writer", ["account", "rehearsal"])
def test_simulator_writes_the_published_keys(tmp_path: Path, writer: str) -> None:
    found = simulated() if writer == "account" else rehearsed(tmp_path)
    groups = found[FACTS["groups"]]
    [head] = groups[0]["Instances"]
    [gpu] = groups[1]["Instances"]
    slurm = found[FACTS["slurm_config"]]
    assert sorted(found[FACTS["cluster"]]) == FACTS["cluster_keys"]
    assert [sorted(group) for group in groups] == [FACTS["group_keys"]] * len(groups)
    assert sorted(gpu) == FACTS["instance_keys"]
    assert gpu["InstanceName"] == FACTS["instance_name"].format(group="gpu", index=FACTS["first_index"])
    # A reader of the agents' address must not find a node.
    assert gpu["AgentIpAddress"] != gpu[FACTS["own_address"]]
    assert FACTS["orchestrator"].items() <= found.items()
    assert sorted(slurm) == FACTS["slurm_config_keys"]
    assert slurm["PrimaryControllerIp"] == head[FACTS["own_address"]]


def test_simulator_gives_a_group_without_instances_a_published_form() -> None:
    assert simulated()["InstanceGroups"][2]["Instances"] in FACTS["group_without_instances"]


def test_simulator_writes_the_form_of_eks() -> None:
    found = simulated("eks")
    assert FACTS["orchestrator_eks"].items() <= found.items()
    [gpu] = found["InstanceGroups"][1]["Instances"]
    assert gpu["InstanceName"] == FACTS["instance_name_eks"].format(id=gpu["InstanceId"])
