"""`ops sweep` against the account: it offers what no stack owns, and leaves everything else."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from moto.ec2.models import ec2_backends
from typer.testing import CliRunner, Result

import config
from config import naming
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from ops import clients as ops_clients
from ops.commands.whole import app
from ops.policy.role import PersonRole
from ops.sweep.finders import FINDERS
from ops.sweep.leftover import Leftover, Surface
from ops.sweep.sweep import find
from tests.rehearsal.conftest import AsPerson

pytestmark = pytest.mark.product

DEV = config.load("dev")
CLUSTER = naming.eks_cluster(DEV)
EMPTY = {"Resources": {"Log": {"Type": "AWS::Logs::LogGroup"}}}


@dataclass
class Made:
    """One leftover of each kind, and a look-alike of each that must stay."""

    leftovers: dict[str, str]
    others: set[str]


@pytest.fixture
def made(clients: Clients) -> Made:
    ec2, logs, ecr, kms = (clients(name) for name in ("ec2", "logs", "ecr", "kms"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    # Only CloudFormation can set this tag.
    ec2_backends["111122223333"]["us-west-2"].create_tags(
        [vpc], {"aws:cloudformation:stack-name": naming.stack(DEV, "network")}
    )
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]

    def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]

    def interface(cluster: str) -> str:
        tags = tagged("network-interface", **{"cluster.k8s.amazonaws.com/name": cluster})
        made = ec2.create_network_interface(SubnetId=subnet, TagSpecifications=tags)
        return str(made["NetworkInterface"]["NetworkInterfaceId"])

    def volume(cluster: str) -> str:
        tags = tagged("volume", **{f"kubernetes.io/cluster/{cluster}": "owned"})
        return str(ec2.create_volume(AvailabilityZone="us-west-2a", Size=8, TagSpecifications=tags)["VolumeId"])

    def snapshot(cluster: str, source: str) -> str:
        tags = tagged("snapshot", **{f"kubernetes.io/cluster/{cluster}": "owned"})
        return str(ec2.create_snapshot(VolumeId=source, TagSpecifications=tags)["SnapshotId"])

    def guard(managed: str) -> tuple[str, str]:
        endpoint = ec2.create_vpc_endpoint(
            VpcId=vpc,
            ServiceName="com.amazonaws.us-west-2.guardduty-data",
            VpcEndpointType="Interface",
            PrivateDnsEnabled=False,
            SubnetIds=[subnet],
            TagSpecifications=tagged("vpc-endpoint", GuardDutyManaged=managed),
        )["VpcEndpoint"]["VpcEndpointId"]
        group = ec2.create_security_group(
            GroupName=f"guard-{managed}",
            Description="guard",
            VpcId=vpc,
            TagSpecifications=tagged("security-group", GuardDutyManaged=managed),
        )["GroupId"]
        return str(endpoint), str(group)

    def repository(name: str, stack: str) -> str:
        ecr.create_repository(repositoryName=name, tags=[{"Key": "aws:cloudformation:stack-name", "Value": stack}])
        return name

    def key(stack: str) -> str:
        tags = [{"TagKey": "aws:cloudformation:stack-name", "TagValue": stack}]
        return str(kms.create_key(Tags=tags)["KeyMetadata"]["KeyId"])

    def log_group(name: str) -> str:
        logs.create_log_group(logGroupName=name)
        return name

    def file_system(environment: str) -> str:
        made = clients("fsx").create_file_system(
            FileSystemType="LUSTRE",
            FileSystemTypeVersion="2.15",
            StorageCapacity=1200,
            SubnetIds=[subnet],
            LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
            Tags=[{"Key": naming.ENVIRONMENT_TAG, "Value": environment}],
        )
        return str(made["FileSystem"]["FileSystemId"])

    own_volume = volume(CLUSTER)
    endpoint, group = guard("true")
    leftovers = {
        "GuardDuty endpoint": endpoint,
        "GuardDuty security group": group,
        "network interface": interface(CLUSTER),
        "volume": own_volume,
        "snapshot": snapshot(CLUSTER, own_volume),
        "file system": file_system(naming.environment_tag(DEV)),
        "image repository": repository("kept", naming.stack(DEV, "storage")),
        "KMS key": key(naming.stack(DEV, "eks")),
        "log group": log_group(f"/aws/sagemaker/Clusters/{DEV.hyperpod.cluster_name}/abc"),
    }
    others = {interface("other"), volume("other"), snapshot("other", own_volume), *guard("false")}
    others |= {
        file_system("other"),
        repository("other", "other-storage"),
        key("other-eks"),
        log_group("/aws/eks/other/cluster"),
        log_group(f"/aws/lambda/{naming.stack(DEV, 'eks')}-2-eks-ClusterKubectlProvider-ABC"),
    }
    return Made(leftovers, others)


@pytest.fixture
def sweep(as_person: AsPerson, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return the command `ops sweep --env dev` with more arguments, as the administrator."""
    admin = as_person(DEV, PersonRole.ADMIN)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(admin))
    return lambda *arguments: CliRunner().invoke(app, ["sweep", "--env", "dev", *arguments])


@dataclass
class Account:
    client: Clients


def ids(found: tuple[Leftover, ...]) -> dict[str, str]:
    assert len({each.kind for each in found}) == len(found)
    return {each.kind: each.id for each in found}


def test_each_kind_is_found_and_no_look_alike(made: Made, clients: Clients) -> None:
    assert ids(find(Surface(DEV, clients)).leftovers) == made.leftovers


def test_nothing_that_an_existing_stack_may_use_is_offered(made: Made, clients: Clients, stacks: StackDeployer) -> None:
    for part in ("eks", "hyperpod", "ray", "storage"):
        clients("cloudformation").create_stack(StackName=naming.stack(DEV, part), TemplateBody=json.dumps(EMPTY))
    found = find(Surface(DEV, clients)).leftovers
    assert [each.kind for each in found] == ["network interface"], "a detached interface is used by nobody"


def test_what_holds_data_is_removed_only_on_demand(made: Made, sweep: Callable[..., Result]) -> None:
    listed = sweep("--dry-run", "-o", "json")
    assert {each["id"] for each in json.loads(listed.stdout)["leftovers"]} == set(made.leftovers.values())
    assert listed.exit_code == 0
    kept = sweep("--yes")
    assert kept.exit_code == 1
    assert "5 that hold data are left" in kept.stderr
    assert sweep("--yes", "--data").exit_code == 0
    again = sweep("--yes", "--data")
    assert (again.exit_code, again.stdout) == (0, "dev: nothing is left\n")


def test_sweep_removes_nothing_without_a_yes(made: Made, sweep: Callable[..., Result], clients: Clients) -> None:
    assert sweep().exit_code == 1
    assert ids(find(Surface(DEV, clients)).leftovers) == made.leftovers


def test_others_stay_after_everything_is_swept(made: Made, sweep: Callable[..., Result], clients: Clients) -> None:
    assert sweep("--yes", "--data").exit_code == 0
    ec2 = clients("ec2")
    there = {each["NetworkInterfaceId"] for each in ec2.describe_network_interfaces()["NetworkInterfaces"]}
    there |= {each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]}
    there |= {each["SnapshotId"] for each in ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]}
    there |= {each["VpcEndpointId"] for each in ec2.describe_vpc_endpoints()["VpcEndpoints"]}
    there |= {each["GroupId"] for each in ec2.describe_security_groups()["SecurityGroups"]}
    systems = clients("fsx").describe_file_systems()["FileSystems"]
    there |= {each["FileSystemId"] for each in systems if each["Lifecycle"] != "DELETING"}
    there |= {each["repositoryName"] for each in clients("ecr").describe_repositories()["repositories"]}
    keys = clients("kms").list_keys()["Keys"]
    states = {
        each["KeyId"]: clients("kms").describe_key(KeyId=each["KeyId"])["KeyMetadata"]["KeyState"] for each in keys
    }
    there |= {id for id, state in states.items() if state == "Enabled"}
    there |= {each["logGroupName"] for each in clients("logs").describe_log_groups()["logGroups"]}
    assert made.others <= there
    assert not there & set(made.leftovers.values())


def test_kind_that_the_caller_may_not_see_is_named(
    made: Made, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(surface: Surface) -> Any:
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "ListKeys")

    refused.__name__ = "kms_keys"
    monkeypatch.setattr("ops.sweep.sweep.FINDERS", (*FINDERS[:1], refused))
    assert find(Surface(DEV, clients)).not_seen == ("kms keys: no permission to read (ListKeys)",)
