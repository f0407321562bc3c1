"""Unfriendly forms of resource_config.json and provisioning_parameters.json, and how each must be read or refused.

`own`: all addresses of the node. `expect`: readings of which one must hold. A key that a reading lacks is not compared.
An `error` is one line with the file's name and every word. `why` names the source or the rule: [LS] lifecycle_script.py
and provisioning_parameters.json of awslabs/awsome-distributed-ai (LifecycleScripts/base-config), [RC] the
resource_config.json in a public script for Kubernetes on HyperPod, [API] SageMaker's API reference, [MIG] AWS's page on
the API-driven configuration, [TF] the Terraform module hyperpod-slurm-tf, [ADV] adversarial.
"""

from __future__ import annotations

import copy
import json
from typing import Any

RC, PP = "resource_config.json", "provisioning_parameters.json"
DNS, MOUNT = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com", "abcdefgh"


def node(group: str, number: int, address: Any, **more: Any) -> dict[str, Any]:
    return {
        "AgentIpAddress": f"172.16.{number}.{len(group)}",
        "CustomerIpAddress": address,
        "InstanceId": f"i-{len(group):08x}{number:09x}",
        "InstanceName": f"{group}-{number}",
        **more,
    }


def group(name: str, addresses: list[Any] | None, kind: str = "ml.c5.xlarge", **more: Any) -> dict[str, Any]:
    instances = None if addresses is None else [node(name, n, a) for n, a in enumerate(addresses, 1)]
    return {"Name": name, "InstanceType": kind, "Instances": instances, **more}


CLUSTER = {"ClusterArn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/kb8v11zrrpvr", "ClusterName": "ml-cluster"}
CONTROLLER = group("controller-machine", ["10.1.113.28"])
LOGIN = group("login-group", ["10.1.50.7"])
WORKERS = group("worker-group-1", ["10.1.38.128", "10.1.29.16"], "ml.g5.4xlarge")


def resources(*groups: Any, **more: Any) -> dict[str, Any]:
    return {"ClusterConfig": CLUSTER, "InstanceGroups": list(groups), **more}


def parameters(drop: tuple[str, ...] = (), **change: Any) -> dict[str, Any]:
    base = {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": "controller-machine",
        "login_group": "login-group",
        "worker_groups": [{"instance_group_name": "worker-group-1", "partition_name": "dev"}],
        "fsx_dns_name": DNS,
        "fsx_mountname": MOUNT,
    }
    return {key: value for key, value in {**base, **change}.items() if key not in drop}


R, P = resources(CONTROLLER, LOGIN, WORKERS), parameters()
READ: dict[str, Any] = {
    "controllers": ["10.1.113.28"],
    "logins": ["10.1.50.7"],
    "workers": {"worker-group-1": ["10.1.38.128", "10.1.29.16"]},
    "partitions": {"worker-group-1": "dev"},
    "fsx": [DNS, MOUNT],
    "self": "compute",
}
OWN = ["10.1.38.128"]
CASES: dict[str, dict[str, Any]] = {}


def read(**change: Any) -> dict[str, Any]:
    result = {**copy.deepcopy(READ), **change}
    return {key: value for key, value in result.items() if value is not ...}


def error(file: str, *words: str) -> dict[str, Any]:
    return {"error": {"file": file, "words": list(words)}}


def case(name: str, r: Any, p: Any, *expect: dict[str, Any], why: str, own: list[str] = OWN) -> None:
    """Bytes are written as they are, None: no such file, anything else as JSON."""
    assert name not in CASES
    CASES[name] = {"r": r, "p": p, "own": own, "expect": list(expect), "why": why}


def changed(value: Any, change: Any) -> Any:
    value = copy.deepcopy(value)
    change(value)
    return value


def text(value: Any) -> str:
    return json.dumps(value, indent=2)


# The published form, and each kind of node.
case("guide", R, P, READ, why="[LS] [RC]")
case("guide-on-controller", R, P, read(self="controller"), why="[LS]", own=["10.1.113.28"])
case("guide-on-login", R, P, read(self="login"), why="[LS]", own=["10.1.50.7"])
case(
    "controller-last-in-file",
    resources(WORKERS, LOGIN, CONTROLLER),
    P,
    READ,
    why="[LS] finds groups by name, in any order",
)
case("no-cluster-config", {"InstanceGroups": R["InstanceGroups"]}, P, READ, why="[LS] reads InstanceGroups only")
case(
    "names-with-the-same-beginning",
    resources(group("controller-machine-2", ["10.1.9.9"]), CONTROLLER, LOGIN, WORKERS),
    P,
    READ,
    why="[ADV] the name must be equal, not a prefix or a pattern",
)
case(
    "group-name-with-pattern-characters",
    resources(group("controllerXmachine", ["10.1.9.9"]), group("controller.machine", ["10.1.9.8"]), LOGIN, WORKERS),
    parameters(controller_group="controller.machine"),
    read(controllers=["10.1.9.8"]),
    error(PP, "controller_group"),
    why="[ADV] a dot is no pattern; [API] forbids it in a name, so that an error is right, too",
)

# Login group.
case(
    "login-absent",
    resources(CONTROLLER, WORKERS),
    parameters(("login_group",)),
    read(logins=[]),
    why="[LS] params.get('login_group')",
)
case("login-null", resources(CONTROLLER, WORKERS), parameters(login_group=None), read(logins=[]), why="[LS]")
case("login-empty", resources(CONTROLLER, WORKERS), parameters(login_group=""), read(logins=[]), why="[ADV] as absent")
case(
    "login-named-but-not-in-cluster",
    resources(CONTROLLER, WORKERS),
    parameters(login_group="my-login-group"),
    read(logins=[]),
    why="[LS] the published file has my-login-group, also for clusters without login nodes",
)
case(
    "login-named-empty-instances",
    resources(CONTROLLER, group("login-group", []), WORKERS),
    P,
    read(logins=[]),
    why="continuous provisioning: not started yet",
)
case(
    "login-also-in-worker-groups",
    R,
    parameters(worker_groups=[{"instance_group_name": "login-group", "partition_name": "dev"}, *P["worker_groups"]]),
    read(self="login", workers=..., partitions=...),
    why="[TF] a Terraform module lists login nodes as workers",
    own=["10.1.50.7"],
)
case(
    "login-a-list",
    R,
    parameters(login_group=["login-group"]),
    error(PP, "login_group"),
    why="[LS] compares with a string",
)
case(
    "login-is-the-controller",
    R,
    parameters(login_group="controller-machine"),
    read(logins=..., self="controller"),
    error(PP, "login_group"),
    why="[LS] asks for the controller first",
    own=["10.1.113.28"],
)
case(
    "two-login-nodes",
    resources(CONTROLLER, group("login-group", ["10.1.50.7", "10.1.50.8"]), WORKERS),
    P,
    read(logins=["10.1.50.7", "10.1.50.8"]),
    why="[LS]",
)

# Instances.
for name, change in {
    "null": lambda g: g.update(Instances=None),
    "missing": lambda g: g.pop("Instances"),
    "empty": lambda g: g.update(Instances=[]),
}.items():
    case(
        f"workers-instances-{name}",
        resources(CONTROLLER, LOGIN, changed(WORKERS, change)),
        P,
        read(workers={"worker-group-1": []}, self="controller"),
        why="the controller starts before the workers",
        own=["10.1.113.28"],
    )
    case(
        f"other-workers-instances-{name}",
        resources(CONTROLLER, LOGIN, changed(group("worker-group-0", []), change), WORKERS),
        P,
        READ,
        why="[ADV] a group without instances before the own one",
    )
    case(
        f"controller-instances-{name}",
        resources(changed(CONTROLLER, change), LOGIN, WORKERS),
        P,
        error(RC, "controller-machine"),
        why="a worker cannot find its controller: say which group has no instances",
    )
case(
    "controller-provisioned-first",
    resources(CONTROLLER, group("login-group", None), group("worker-group-1", None)),
    P,
    read(logins=[], workers={"worker-group-1": []}, self="controller"),
    why="only the controller has instances",
    own=["10.1.113.28"],
)
case(
    "only-the-own-group",
    resources(CONTROLLER),
    P,
    read(logins=[], workers=..., self="controller"),
    why="other groups are not in the file yet",
    own=["10.1.113.28"],
)
case(
    "instances-with-null-entry",
    resources(CONTROLLER, LOGIN, changed(WORKERS, lambda g: g["Instances"].insert(0, None))),
    P,
    READ,
    error(RC, "worker-group-1"),
    why="[ADV]",
)
case(
    "instances-an-object",
    resources(CONTROLLER, LOGIN, changed(WORKERS, lambda g: g.update(Instances={"0": g["Instances"][0]}))),
    P,
    error(RC, "Instances"),
    why="[ADV]",
)
case(
    "thousand-workers",
    resources(
        CONTROLLER, LOGIN, group("worker-group-1", [*(f"10.2.{n // 250}.{n % 250 + 1}" for n in range(1000)), OWN[0]])
    ),
    P,
    read(workers=...),
    why="[API] a group has up to 6758 instances",
)
case(
    "count-zero-continuous",
    resources(
        {**CONTROLLER, "InstanceCount": 1, "CurrentCount": 1, "TargetCount": 1},
        {**LOGIN, "InstanceCount": 1},
        {**group("worker-group-1", []), "InstanceCount": 0, "CurrentCount": 0, "TargetCount": 0},
        NodeProvisioningMode="Continuous",
    ),
    P,
    read(workers={"worker-group-1": []}, self="controller"),
    why="[API] InstanceCount from 0; NodeProvisioningMode",
    own=["10.1.113.28"],
)

# Addresses.
case(
    "controller-without-customer-address",
    resources(changed(CONTROLLER, lambda g: g["Instances"][0].pop("CustomerIpAddress")), LOGIN, WORKERS),
    P,
    error(RC, "CustomerIpAddress"),
    why="AgentIpAddress is in the service's network: no node reaches it",
)
case(
    "controller-customer-address-null",
    resources(group("controller-machine", [None]), LOGIN, WORKERS),
    P,
    error(RC, "CustomerIpAddress"),
    why="[LS] i.get(…)",
)
case(
    "controller-customer-address-empty",
    resources(group("controller-machine", [""]), LOGIN, WORKERS),
    P,
    error(RC, "CustomerIpAddress"),
    why="[ADV]",
)
case(
    "controller-customer-address-no-address",
    resources(group("controller-machine", ["ip-10-1-113-28"]), LOGIN, WORKERS),
    P,
    read(controllers=["ip-10-1-113-28"]),
    error(RC, "CustomerIpAddress"),
    why="[ADV] a name",
)
case(
    "controller-customer-address-with-blank",
    resources(group("controller-machine", ["10.1.113.28\n"]), LOGIN, WORKERS),
    P,
    READ,
    error(RC, "CustomerIpAddress"),
    why="[ADV] stripped or refused, never passed on",
)
case(
    "controller-customer-address-shell",
    resources(group("controller-machine", ["10.1.113.28; touch owned"]), LOGIN, WORKERS),
    P,
    error(RC, "CustomerIpAddress"),
    why="[ADV] nothing from the file is run",
)
case(
    "controller-customer-address-a-list",
    resources(group("controller-machine", [["10.1.113.28"]]), LOGIN, WORKERS),
    P,
    error(RC, "CustomerIpAddress"),
    why="[ADV]",
)
case(
    "other-worker-without-address",
    resources(CONTROLLER, LOGIN, group("worker-group-1", ["10.1.38.128", None])),
    P,
    read(workers={"worker-group-1": ["10.1.38.128"]}),
    read(workers={"worker-group-1": ["10.1.38.128", None]}),
    why="not assigned yet: no obstacle for this node",
)
case(
    "several-interfaces",
    R,
    P,
    READ,
    why="[LS] takes one address by a route; a p5 has many, and docker0",
    own=["127.0.0.1", "172.17.0.1", "10.1.200.5", "10.1.38.128", "10.1.200.6"],
)
case(
    "several-interfaces-on-controller",
    R,
    P,
    read(self="controller"),
    why="the same",
    own=["169.254.0.1", "172.17.0.1", "10.1.113.28"],
)
case(
    "own-address-not-in-file",
    R,
    P,
    error(RC, "10.1.77.77"),
    why="[LS] 'This instance not found in resource config'",
    own=["10.1.77.77"],
)
case(
    "own-address-is-another-agents",
    resources(
        group("controller-machine", ["10.1.113.28"]),
        changed(LOGIN, lambda g: g["Instances"][0].update(AgentIpAddress="10.1.38.128")),
        WORKERS,
    ),
    P,
    READ,
    why="[ADV] AgentIpAddress identifies no node of the VPC",
)
case(
    "own-address-is-a-prefix",
    resources(CONTROLLER, LOGIN, group("worker-group-1", ["10.1.38.128"]), group("other", ["10.1.38.12"])),
    P,
    read(workers={"worker-group-1": ["10.1.38.128"]}),
    read(workers=...),
    # As with `group-in-no-list`: the group of 10.1.38.12 is named, so the addresses were compared as a whole.
    error(PP, "worker_groups: other "),
    why="[ADV] 10.1.38.12 is a beginning of 10.1.38.128: compare whole addresses",
    own=["10.1.38.12"],
)
case(
    "same-address-twice",
    resources(group("controller-machine", ["10.1.38.128"]), LOGIN, WORKERS),
    P,
    read(controllers=["10.1.38.128"], self="controller"),
    error(RC, "10.1.38.128"),
    why="[LS] takes the first group; an error is better",
)
case(
    "two-controllers",
    resources(group("controller-machine", ["10.1.113.28", "10.1.113.29"]), LOGIN, WORKERS),
    P,
    read(controllers=["10.1.113.28", "10.1.113.29"]),
    error(RC, "controller-machine"),
    why="[LS] joins all; [MIG] multi-head",
)
case(
    "second-controller-without-address",
    resources(group("controller-machine", ["10.1.113.28", None]), LOGIN, WORKERS),
    P,
    READ,
    error(RC, "CustomerIpAddress"),
    why="[ADV]",
)
case(
    "instance-names-absent",
    resources(
        *[changed(g, lambda g: [i.pop("InstanceName") for i in g["Instances"]]) for g in (CONTROLLER, LOGIN, WORKERS)]
    ),
    P,
    READ,
    why="[LS] does not read InstanceName",
)
case(
    "instance-ids-absent",
    resources(
        *[changed(g, lambda g: [i.pop("InstanceId") for i in g["Instances"]]) for g in (CONTROLLER, LOGIN, WORKERS)]
    ),
    P,
    READ,
    why="[LS]",
)
case(
    "agent-addresses-absent",
    resources(
        *[changed(g, lambda g: [i.pop("AgentIpAddress") for i in g["Instances"]]) for g in (CONTROLLER, LOGIN, WORKERS)]
    ),
    P,
    READ,
    why="[LS]",
)

# Groups.
TWO = resources(CONTROLLER, LOGIN, WORKERS, group("worker-group-2", ["10.1.60.1"], "ml.p5.48xlarge"))
case(
    "two-worker-groups",
    TWO,
    parameters(worker_groups=[*P["worker_groups"], {"instance_group_name": "worker-group-2", "partition_name": "big"}]),
    read(
        workers={**READ["workers"], "worker-group-2": ["10.1.60.1"]},
        partitions={"worker-group-1": "dev", "worker-group-2": "big"},
    ),
    why="[LS]",
)
case(
    "two-worker-groups-one-partition",
    TWO,
    parameters(worker_groups=[*P["worker_groups"], {"instance_group_name": "worker-group-2", "partition_name": "dev"}]),
    read(
        workers={**READ["workers"], "worker-group-2": ["10.1.60.1"]},
        partitions={"worker-group-1": "dev", "worker-group-2": "dev"},
    ),
    why="[LS]",
)
case(
    "worker-group-listed-twice",
    R,
    parameters(worker_groups=P["worker_groups"] * 2),
    READ,
    error(PP, "worker-group-1"),
    why="[ADV]",
)
case(
    "worker-group-in-two-partitions",
    R,
    parameters(worker_groups=[*P["worker_groups"], {"instance_group_name": "worker-group-1", "partition_name": "big"}]),
    error(PP, "worker-group-1"),
    read(partitions=...),
    why="[API] at most one partition for a group",
)
case(
    "worker-group-not-in-cluster",
    R,
    parameters(worker_groups=[*P["worker_groups"], {"instance_group_name": "later", "partition_name": "dev"}]),
    read(workers=..., partitions=...),
    why="a group that does not exist yet, or no more",
)
case(
    "group-in-no-list",
    resources(CONTROLLER, LOGIN, WORKERS, group("extra", ["10.1.70.1"])),
    P,
    read(workers=...),
    error(PP, "extra"),
    why="[LS] a group that is in no list is compute",
    own=["10.1.70.1"],
)
case(
    "restricted-groups",
    resources(
        CONTROLLER,
        LOGIN,
        WORKERS,
        RestrictedInstanceGroups=[
            {
                "Name": "rig-1",
                "InstanceType": "ml.p5.48xlarge",
                "Instances": None,
                "EnvironmentConfig": {"FSxLustreConfig": {"SizeInGiB": 12000}},
            }
        ],
    ),
    P,
    READ,
    why="[API] RestrictedInstanceGroups beside InstanceGroups",
)
case(
    "restricted-groups-null", resources(CONTROLLER, LOGIN, WORKERS, RestrictedInstanceGroups=None), P, READ, why="[API]"
)
case(
    "duplicate-group-names",
    resources(CONTROLLER, LOGIN, WORKERS, group("controller-machine", ["10.1.80.1"])),
    P,
    READ,
    error(RC, "controller-machine"),
    why="[LS] takes the first",
)
case(
    "group-without-name",
    resources(CONTROLLER, LOGIN, changed(group("x", ["10.1.80.1"]), lambda g: g.pop("Name")), WORKERS),
    P,
    READ,
    error(RC, "Name"),
    why="[LS] group.get('Name')",
)
case(
    "group-name-under-the-apis-key",
    resources(*[changed(g, lambda g: g.update(InstanceGroupName=g.pop("Name"))) for g in (CONTROLLER, LOGIN, WORKERS)]),
    P,
    READ,
    error(RC, "Name"),
    why="[API] has InstanceGroupName, the file has Name",
)
case("group-null", resources(None, CONTROLLER, LOGIN, WORKERS), P, READ, error(RC, "InstanceGroups"), why="[ADV]")
case(
    "numbers-as-strings",
    resources({**CONTROLLER, "InstanceCount": "1", "ThreadsPerCore": "1"}, LOGIN, {**WORKERS, "InstanceCount": "2"}),
    parameters(version=1.0),
    READ,
    why="[ADV] nothing of this is needed",
)
case(
    "unknown-keys-everywhere",
    changed(
        resources(
            {**CONTROLLER, "Status": "InService", "Labels": None},
            {**LOGIN, "x": []},
            {**WORKERS, "SlurmConfig": {"NodeType": "Compute"}},
            Tags=[{}],
        ),
        lambda r: [
            i.update(IPv6=None, NetworkInterfaces=[{"Primary": True}])
            for g in r["InstanceGroups"]
            for i in g["Instances"]
        ],
    ),
    parameters(slurm_configurations={"rds_endpoint": None}, note="added by hand"),
    READ,
    why="[ADV] keys are added by AWS without notice",
)
case(
    "orchestrator-slurm",
    resources(CONTROLLER, LOGIN, WORKERS, Orchestrator={"Slurm": {"SlurmConfigStrategy": "Managed"}}),
    P,
    READ,
    why="[API] ClusterOrchestratorSlurmConfig",
)
case(
    "orchestrator-in-cluster-config",
    {**R, "ClusterConfig": {**CLUSTER, "Orchestrator": {"Slurm": {}}}},
    P,
    READ,
    why="[API]",
)
case(
    "orchestrator-eks",
    resources(
        CONTROLLER, LOGIN, WORKERS, Orchestrator={"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:123456789012:cluster/x"}}
    ),
    P,
    READ,
    error(RC, "Orchestrator"),
    why="[ADV]",
)
case(
    "china-arn",
    {
        **R,
        "ClusterConfig": {
            "ClusterArn": "arn:aws-cn:sagemaker:cn-north-1:123456789012:cluster/kb8v11zrrpvr",
            "ClusterName": "ml",
        },
    },
    parameters(fsx_dns_name="fs-0123456789abcdef0.fsx.cn-north-1.amazonaws.com.cn"),
    read(fsx=["fs-0123456789abcdef0.fsx.cn-north-1.amazonaws.com.cn", MOUNT]),
    why="partition aws-cn",
)

# Keys of provisioning_parameters.json.
case(
    "controller-group-missing",
    R,
    parameters(("controller_group",)),
    error(PP, "controller_group"),
    why="[LS] would find no controller, silently",
)
case("controller-group-null", R, parameters(controller_group=None), error(PP, "controller_group"), why="[LS]")
case("controller-group-empty", R, parameters(controller_group=""), error(PP, "controller_group"), why="[ADV]")
case("controller-group-a-number", R, parameters(controller_group=1), error(PP, "controller_group"), why="[ADV]")
case(
    "controller-group-unknown",
    R,
    parameters(controller_group="my-controller-group"),
    error(PP, "my-controller-group"),
    why="the name of the published template, not adapted",
)
case(
    "controller-group-other-case",
    R,
    parameters(controller_group="Controller-Machine"),
    error(PP, "Controller-Machine"),
    why="[ADV]",
)
case(
    "workers-missing",
    R,
    parameters(("worker_groups",)),
    read(workers=..., partitions=...),
    error(PP, "worker_groups"),
    why="[LS] does not read it",
)
case(
    "workers-null",
    R,
    parameters(worker_groups=None),
    read(workers=..., partitions=...),
    error(PP, "worker_groups"),
    why="[ADV]",
)
case(
    "workers-an-object",
    R,
    parameters(worker_groups={"instance_group_name": "worker-group-1", "partition_name": "dev"}),
    error(PP, "worker_groups"),
    why="[ADV]",
)
case("workers-of-strings", R, parameters(worker_groups=["worker-group-1"]), error(PP, "worker_groups"), why="[ADV]")
case(
    "worker-group-without-name",
    R,
    parameters(worker_groups=[{"partition_name": "dev"}]),
    error(PP, "instance_group_name"),
    why="[ADV]",
)
case(
    "partition-missing",
    R,
    parameters(worker_groups=[{"instance_group_name": "worker-group-1"}]),
    read(partitions=...),
    error(PP, "partition_name"),
    why="[API] PartitionNames may be empty",
)
case(
    "partition-null",
    R,
    parameters(worker_groups=[{"instance_group_name": "worker-group-1", "partition_name": None}]),
    read(partitions=...),
    error(PP, "partition_name"),
    why="[ADV]",
)
case(
    "partition-shell",
    R,
    parameters(worker_groups=[{"instance_group_name": "worker-group-1", "partition_name": "dev$(touch owned)"}]),
    error(PP, "partition_name"),
    read(partitions=...),
    why="[ADV] [API] [a-zA-Z0-9](-*[a-zA-Z0-9])*; in no case run",
)
case(
    "workload-manager-missing",
    R,
    parameters(("workload_manager",)),
    READ,
    error(PP, "workload_manager"),
    why="[LS] would start nothing, silently",
)
case("workload-manager-other", R, parameters(workload_manager="eks"), error(PP, "workload_manager"), why="[LS]")
case("version-missing", R, parameters(("version",)), READ, why="[LS] does not read it")
case("version-newer", R, parameters(version="2.0.0"), READ, error(PP, "version"), why="[ADV]")

# File systems.
FILE_SYSTEMS: dict[str, dict[str, Any]] = {
    "absent": {"drop": ("fsx_dns_name", "fsx_mountname")},
    "empty": {"fsx_dns_name": "", "fsx_mountname": ""},
    "null": {"fsx_dns_name": None, "fsx_mountname": None},
}
for name, keys in FILE_SYSTEMS.items():
    case(
        f"fsx-{name}",
        R,
        parameters(**keys),
        read(fsx=None),
        why="[LS] mounts if both are given; the published file has neither",
    )
for key, other in {"fsx_dns_name": "fsx_mountname", "fsx_mountname": "fsx_dns_name"}.items():
    case(
        f"{key.replace('_', '-')}-alone",
        R,
        parameters((other,)),
        error(PP, other),
        why="[LS] would mount nothing, silently",
    )
    case(
        f"{key.replace('_', '-')}-with-empty-other", R, parameters((), **{other: ""}), error(PP, other), why="the same"
    )
case(
    "fsx-mountname-with-slash",
    R,
    parameters(fsx_mountname=f"/{MOUNT}"),
    READ,
    error(PP, "fsx_mountname"),
    why="[ADV] DNS@tcp://name does not mount",
)
case("fsx-dns-with-blank", R, parameters(fsx_dns_name=f" {DNS} "), READ, error(PP, "fsx_dns_name"), why="[ADV]")
case("fsx-dns-shell", R, parameters(fsx_dns_name=f"{DNS};touch owned"), error(PP, "fsx_dns_name"), why="[ADV]")
case("fsx-dns-a-number", R, parameters(fsx_dns_name=12), error(PP, "fsx_dns_name"), why="[ADV]")
case(
    "fsx-openzfs-beside",
    R,
    parameters(fsx_openzfs_dns_name="fs-0fedcba9876543210.fsx.us-west-2.amazonaws.com"),
    READ,
    why="awsome-distributed-training: mount_fsx_openzfs.sh, key fsx_openzfs_dns_name",
)
case(
    "fsx-openzfs-only",
    R,
    parameters(
        ("fsx_dns_name", "fsx_mountname"), fsx_openzfs_dns_name="fs-0fedcba9876543210.fsx.us-west-2.amazonaws.com"
    ),
    read(fsx=None),
    error(PP, "fsx_openzfs_dns_name"),
    why="fsx_auto_detect.sh: home directories on OpenZFS without Lustre",
)
case("fsx-openzfs-empty", R, parameters(fsx_openzfs_dns_name=""), READ, why="[ADV]")

# The files themselves.
case(
    "byte-order-mark",
    b"\xef\xbb\xbf" + text(R).encode(),
    b"\xef\xbb\xbf" + text(P).encode(),
    READ,
    why="[ADV] files edited on Windows; json.load refuses them",
)
case("crlf", text(R).replace("\n", "\r\n").encode(), text(P).replace("\n", "\r\n").encode(), READ, why="[ADV]")
case("utf-16", R, text(P).encode("utf-16"), error(PP), READ, why="[ADV] PowerShell's > of old")
case("one-line", json.dumps(R, separators=(",", ":")).encode(), json.dumps(P).encode(), READ, why="[ADV]")
case(
    "escaped-names",
    json.dumps(R).replace("worker-group-1", "worker\\u002dgroup\\u002d1").encode(),
    P,
    READ,
    why="[ADV] a reader by sed or grep fails",
)
case(
    "other-order-of-keys",
    json.dumps(R, sort_keys=True).encode(),
    json.dumps(dict(reversed(P.items()))).encode(),
    READ,
    why="[ADV] a reader by sed or grep fails",
)
for file in (RC, PP):
    for name, content in {
        "empty": b"",
        "cut": text(R).encode()[:200],
        "a-list": b"[]",
        "null": b"null",
        "html": b"<html>AccessDenied</html>",
        "trailing-comma": b'{"a": 1,}',
        "comment": b"// by hand\n{}",
        "no-utf-8": b'{"a": "\xff"}',
        "deep": b"[" * 100_000,
    }.items():
        case(
            f"{file.split('_')[0]}-file-{name}",
            content if file == RC else R,
            content if file == PP else P,
            error(file),
            why="[ADV] named, and no traceback",
        )
case(
    "resource-file-missing",
    None,
    P,
    error(RC),
    why="[LS] exits with 0 without the file ('vanilla cluster'): with Slurm that hides a failure",
)
case(
    "provisioning-file-missing",
    R,
    None,
    read(controllers=..., logins=..., workers=..., partitions=..., fsx=None, self=...),
    error(PP),
    why="[MIG] with the API's way there is no such file",
)
case("instance-groups-missing", {"ClusterConfig": CLUSTER}, P, error(RC, "InstanceGroups"), why="[LS] KeyError")
case(
    "instance-groups-null",
    {"ClusterConfig": CLUSTER, "InstanceGroups": None},
    P,
    error(RC, "InstanceGroups"),
    why="[ADV]",
)
case(
    "instance-groups-an-object",
    {"InstanceGroups": {g["Name"]: g for g in R["InstanceGroups"]}},
    P,
    error(RC, "InstanceGroups"),
    why="[ADV]",
)
case("instance-groups-empty", {"InstanceGroups": []}, P, error(RC), why="[ADV]")
case(
    "instance-groups-twice",
    (text(R)[:-2] + ',\n  "InstanceGroups": []\n}').encode(),
    P,
    READ,
    error(RC),
    why="[ADV] JSON with a key twice: Python takes the last",
)
