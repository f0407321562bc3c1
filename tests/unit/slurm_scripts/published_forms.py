"""The published forms of HyperPod's two files on a Slurm node, and what this project must read in each.

`awsome` is awslabs/awsome-distributed-ai, folder 1.architectures/5.sagemaker-hyperpod.
"""

from dataclasses import dataclass
from typing import Any, Final

CONTROLLER, COMPUTE, LOGIN = "10.1.113.28", "10.1.38.128", "10.1.29.16"
BRIDGE: Final = "172.17.0.1"
"""Docker's bridge, which `hostname -I` also prints."""
FSX: Final = {"fsx_dns_name": "fs-05dac34e835f2c47f.fsx.us-west-2.amazonaws.com", "fsx_mountname": "4owupbev"}


def instance(address: object, name: str = "worker-group-1-1", **more: Any) -> dict[str, Any]:
    """Return an instance with the keys that nodes were seen with (awsome, hyperpod-mental-model.md)."""
    return {
        "AgentIpAddress": "172.16.102.203",
        "CustomerIpAddress": address,
        "InstanceId": "i-07259dd159a1c7130",
        "InstanceName": name,
        **more,
    }


def resources(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a resource_config.json."""
    cluster = {"ClusterArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/kb8v11zrrpvr", "ClusterName": "ml"}
    return {"ClusterConfig": cluster, "InstanceGroups": list(groups), **more}


def group(name: object, *instances: Any, **more: Any) -> dict[str, Any]:
    """Return an instance group."""
    return {"InstanceType": "ml.c5.xlarge", "Name": name, "Instances": list(instances), **more}


def parameters(**changes: Any) -> dict[str, Any]:
    """Return a provisioning_parameters.json (awsome, validate-config.py); None as a change is JSON's null."""
    guide = {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": "controller-machine",
        "worker_groups": [{"instance_group_name": "worker-group-1", "partition_name": "ml.p5.48xlarge"}],
        **FSX,
    }
    return {**guide, **changes}


def without(key: str, of: dict[str, Any]) -> dict[str, Any]:
    """Return an object without a key."""
    return {name: value for name, value in of.items() if name != key}


HEAD: Final = group("controller-machine", instance(CONTROLLER, "controller-machine-1"))
WORKERS: Final = group("worker-group-1", instance(COMPUTE))
LOGINS: Final = group("login-group", instance(LOGIN, "login-group-1"))
BOTH: Final = resources(HEAD, WORKERS)


@dataclass(frozen=True)
class Form:
    """What the two files say, and what is read on the node that has `address`."""

    name: str
    resource_config: Any
    parameters: Any = None
    """None: the file does not exist, and HyperPod configures Slurm."""
    address: str = COMPUTE
    group: str = "worker-group-1"
    role: str = ""
    controllers: str = ""
    fsx_dns_name: str = ""
    fsx_mountname: str = ""
    more_addresses: tuple[str, ...] = (BRIDGE,)


def by_scripts(name: str, resource_config: Any, given: Any = None, **expected: Any) -> Form:
    """Return a form with provisioning_parameters.json, read on a compute node unless `expected` says otherwise."""
    usual = {"role": "compute", "controllers": CONTROLLER, **FSX}
    return Form(name, resource_config, parameters() if given is None else given, **{**usual, **expected})


ON_CONTROLLER: Final = {"address": CONTROLLER, "group": "controller-machine", "role": "controller"}
ON_LOGIN: Final = {"address": LOGIN, "group": "login-group", "role": "login"}

FORMS: Final = (
    by_scripts("the guide's two groups", BOTH),
    by_scripts("the guide's two groups, on the controller", BOTH, **ON_CONTROLLER),
    # awsome 2b673935, "Fix a crash with empty InstanceGroup in resource_config.json": the controller is created first.
    by_scripts("workers not yet created: null", resources(HEAD, WORKERS | {"Instances": None}), **ON_CONTROLLER),
    by_scripts("workers not yet created: no key", resources(HEAD, without("Instances", WORKERS)), **ON_CONTROLLER),
    by_scripts("workers not yet created: empty", resources(HEAD, group("worker-group-1")), **ON_CONTROLLER),
    by_scripts("an empty group comes first", resources(LOGINS | {"Instances": None}, HEAD, WORKERS)),
    by_scripts("a scaled-down group beside this one", resources(HEAD, group("old") | {"Instances": None}, WORKERS)),
    Form("by the API: a group without instances", resources(LOGINS | {"Instances": None}, HEAD, WORKERS)),
    # awsome, hyperpod-mental-model.md: ClusterType, SlurmConfig, InstanceLabel.
    Form(
        "by the API: keys that this project does not read",
        resources(
            HEAD,
            group("worker-group-1", instance(COMPUTE, InstanceLabel={"network-node-layer-1": "nn-1"})),
            group("cpu", instance("10.1.9.9", InstanceLabel=None)),
            ClusterType="Slurm",
            SlurmConfig={"PrimaryControllerIp": CONTROLLER, "SecondaryControllerIps": None},
        ),
    ),
    # Their nodes run no lifecycle scripts: botocore's ClusterRestrictedInstanceGroupSpecification has no such field.
    Form("restricted instance groups", {**BOTH, "RestrictedInstanceGroups": [group("rig") | {"Instances": None}]}),
    Form("no restricted instance groups", {**BOTH, "RestrictedInstanceGroups": None}),
    # A p5 has 32 interfaces, and an IPv6 address is printed last.
    by_scripts("several interfaces", BOTH, more_addresses=("10.1.38.129", "10.1.38.130", BRIDGE, "fd00::1")),
    by_scripts(
        "the agent's address of another node is no address of this one",
        resources(group("login-group", instance(LOGIN, AgentIpAddress=COMPUTE)), HEAD, WORKERS),
    ),
    # awsome, base-config's lifecycle_script.py asks with get(): a node that is not yet known has no address.
    by_scripts("an address that is not yet known: null", resources(group("new", instance(None)), HEAD, WORKERS)),
    by_scripts("an address that is not yet known: no key", resources(group("new", {"InstanceId": "i"}), HEAD, WORKERS)),
    by_scripts(
        "a second controller without an address",
        resources(group("controller-machine", instance(CONTROLLER), instance(None)), WORKERS),
    ),
    # awsome, multi_headnode_setup.
    by_scripts(
        "two controllers",
        resources(group("controller-machine", instance(CONTROLLER), instance("10.1.113.29")), WORKERS),
        parameters(slurm_configurations={"slurm_database_user": "admin", "slurm_sns_arn": ""}),
        controllers=f"{CONTROLLER},10.1.113.29",
    ),
    # awsome, automate-cluster-creation.sh and README: the login group is optional.
    by_scripts("a login group", resources(HEAD, WORKERS, LOGINS), parameters(login_group="login-group"), **ON_LOGIN),
    by_scripts(
        "a login group, on a compute node", resources(HEAD, WORKERS, LOGINS), parameters(login_group="login-group")
    ),
    # awsome, detect_node.sh: `pp.get('login_group', '') or ''`.
    by_scripts("no login group: null", BOTH, parameters(login_group=None)),
    by_scripts("no login group: empty", BOTH, parameters(login_group="")),
    # awsome, terraform-modules/hyperpod-slurm-tf: the login group is a worker group too; partitions can be null.
    by_scripts(
        "a login group among the workers",
        resources(HEAD, LOGINS),
        parameters(
            login_group="login-group", worker_groups=[{"instance_group_name": "login-group", "partition_name": None}]
        ),
        **ON_LOGIN,
    ),
    by_scripts("no worker groups: null", BOTH, parameters(worker_groups=None), **ON_CONTROLLER),
    by_scripts("no worker groups: no key", BOTH, without("worker_groups", parameters()), **ON_CONTROLLER),
    by_scripts("no worker groups: empty", BOTH, parameters(worker_groups=[]), **ON_CONTROLLER),
    by_scripts("OpenZFS", BOTH, parameters(fsx_openzfs_dns_name="fs-0.fsx.us-west-2.amazonaws.com")),
    by_scripts(
        "no file system: null", BOTH, parameters(fsx_dns_name=None, fsx_mountname=None), **dict.fromkeys(FSX, "")
    ),
    by_scripts("no file system: empty", BOTH, parameters(**dict.fromkeys(FSX, "")), **dict.fromkeys(FSX, "")),
    by_scripts(
        "no file system: no keys",
        BOTH,
        without("fsx_dns_name", without("fsx_mountname", parameters())),
        **dict.fromkeys(FSX, ""),
    ),
    # A generator that writes YAML's or Terraform's scalars: names of digits alone become numbers.
    by_scripts(
        "numbers for strings",
        resources(group("1", instance(CONTROLLER)), group("2", instance(COMPUTE))),
        parameters(version=1.0, controller_group=1, worker_groups=[{"instance_group_name": 2, "partition_name": 3}])
        | {"fsx_mountname": 40404040},
        group="2",
        fsx_mountname="40404040",
    ),
    by_scripts(
        "strings for numbers",
        resources(HEAD, WORKERS | {"InstanceCount": "2", "ThreadsPerCore": "1"}),
    ),
)


@dataclass(frozen=True)
class Refused:
    """Files that no node can work with, and the words that the one message must have."""

    name: str
    resource_config: Any
    parameters: Any
    words: tuple[str, ...]


REFUSED: Final = (
    Refused("no groups: null", resources() | {"InstanceGroups": None}, None, (COMPUTE, "Fix: ")),
    Refused("no groups: no key", {"ClusterConfig": {}}, None, (COMPUTE, "Fix: ")),
    Refused("restricted groups alone", {"RestrictedInstanceGroups": [WORKERS]}, None, (COMPUTE, "Fix: ")),
    Refused("only groups without instances", resources(HEAD | {"Instances": None}), None, (COMPUTE, "Fix: ")),
    Refused(
        "groups as an object", {"InstanceGroups": {"a": WORKERS}}, None, ("InstanceGroups: ", "Allowed: ", "Fix: ")
    ),
    Refused("a group as a string", {"InstanceGroups": ["a"]}, None, ("InstanceGroups: ", "Allowed: ", "Fix: ")),
    Refused(
        "instances as an object", resources(WORKERS | {"Instances": {}}), None, ("Instances: ", "Allowed: ", "Fix: ")
    ),
    Refused("an instance as a string", resources(group("a", COMPUTE)), None, ("Instances: ", "Allowed: ", "Fix: ")),
    Refused(
        "a group's name as a list", resources(group(["a"], instance(COMPUTE))), None, ("Name: ", "Allowed: ", "Fix: ")
    ),
    Refused("parameters as a list", BOTH, [], ("provisioning_parameters.json", "no JSON object", "Fix: ")),
    Refused("parameters as null", BOTH, "null", ("provisioning_parameters.json", "no JSON object", "Fix: ")),
    Refused("no controller group: null", BOTH, parameters(controller_group=None), ("controller_group: ", "Fix: ")),
    Refused("no controller group: no key", BOTH, without("controller_group", parameters()), ("controller_group: ",)),
    Refused("no controller group: empty", BOTH, parameters(controller_group=""), ("controller_group: ", "Fix: ")),
    Refused(
        "a controller group as a list", BOTH, parameters(controller_group=["a"]), ("controller_group: ", "Allowed: ")
    ),
    Refused(
        "worker groups as an object", BOTH, parameters(worker_groups={}), ("worker_groups: ", "Allowed: ", "Fix: ")
    ),
    Refused("a worker group as a string", BOTH, parameters(worker_groups=["a"]), ("worker_groups: ", "Allowed: ")),
    Refused(
        "a worker group without a name",
        BOTH,
        parameters(worker_groups=[{"partition_name": "dev"}]),
        ("instance_group_name: ", "Allowed: ", "Fix: "),
    ),
    Refused("a file system as an object", BOTH, parameters(fsx_dns_name={"a": 1}), ("fsx_dns_name: ", "Allowed: ")),
    Refused("a mount name as a truth value", BOTH, parameters(fsx_mountname=True), ("fsx_mountname: ", "Allowed: ")),
)
