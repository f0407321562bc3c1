"""Run the HyperPod simulator inside a test process, with a small account, a manual clock and EKS as plain records.

There is no server, no thread and no sleep: boto3 clients call moto in the same process. It serves tests of the
simulator and of the code that calls SageMaker's API (the custom resource's handlers, `ops`).

    with HyperPodBench() as bench:
        sagemaker = bench.client("sagemaker")
        sagemaker.create_cluster(**bench.request())
        bench.advance(minutes=30)
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final, Self
from unittest.mock import patch

import boto3
import botocore.session
from botocore.loaders import Loader
from moto import mock_aws

from embedded_account import moto_internals
from embedded_account.background import Background
from embedded_account.hyperpod.api.operations import HyperPodApi, serving
from embedded_account.hyperpod.eks import EksDescription, KubernetesUnavailableError
from embedded_account.hyperpod.fault_requests import apply
from embedded_account.hyperpod.nodes import KubernetesNode
from embedded_account.hyperpod.schedule import Schedule
from embedded_account.hyperpod.state import HyperPodService
from embedded_account.hyperpod.surroundings import AccountServices
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.machine import isolation

ACCOUNT_ID: Final = "111122223333"
REGION: Final = "us-west-2"
moto_internals.resolve_methods()
_MOTO_SETTINGS: Final = {
    "MOTO_ACCOUNT_ID": ACCOUNT_ID,
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # loading moto's thousand images would take most of the set-up time
}
EXECUTION_POLICY: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["ec2:*", "logs:*", "s3:GetObject", "s3:ListBucket"], "Resource": "*"}],
}


@lru_cache(maxsize=64)
def _client(service: str, key: str, secret: str, token: str | None = None, **options: Any) -> Any:
    """Return a client that the whole process shares: creating one costs more than many calls."""
    core = botocore.session.Session()
    core.register_component("data_loader", _loader())
    session: Any = boto3.Session(key, secret, token, REGION, botocore_session=core)
    return session.client(service, **options)


@cache
def _loader() -> Loader:
    """Return one loader for all sessions: reading SageMaker's service model takes half a second."""
    loader: Loader = botocore.session.Session().get_component("data_loader")
    return loader


@contextmanager
def mock_aws_for_boto3() -> Iterator[None]:
    """Mock AWS for boto3, and not for the library `requests`, which nothing here uses.

    moto would compile a thousand patterns for it on every start: a quarter of the time to enter a bench.
    """
    with patch("moto.core.models.RESPONSES_METHODS", ()):
        mock = mock_aws()
        mock.start()
    try:
        yield
    finally:
        mock.stop()


class ManualClock:
    """A clock that changes only when a test sets `present`; its scale is 1, so a second is a simulated second."""

    scale = 1.0

    def __init__(self) -> None:
        self.present = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was last set."""
        return self.present


class EksRecords:
    """EKS clusters as records; tests read in the attributes what the simulator did to them.

    Attributes:
        clusters: The EKS clusters, by name.
        access_entries: The properties of each access entry, by cluster and principal.
        nodes: The Kubernetes nodes, by name.
        silent: Names of the nodes without heartbeats.
        missing: The answer of `missing_dependencies`.
        unavailable: While true, no control plane answers.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, EksDescription] = {}
        self.missing: list[str] = []
        self.access_entries: dict[str, dict[str, dict[str, Any]]] = {}
        self.nodes: dict[str, KubernetesNode] = {}
        self.silent: set[str] = set()
        self.unavailable = False

    def cluster(self, name: str) -> EksDescription | None:
        return self.clusters.get(name)

    def missing_dependencies(self, name: str) -> list[str]:
        self._require_answer(name)
        return self.missing

    def add_access_entry(self, name: str, principal_arn: str, **properties: Any) -> bool:
        entries = self.access_entries.setdefault(name, {})
        return entries.setdefault(principal_arn, properties) is properties

    def remove_access_entry(self, name: str, principal_arn: str) -> None:
        self.access_entries.get(name, {}).pop(principal_arn, None)

    def join(self, name: str, node: KubernetesNode) -> None:
        self._require_answer(name)
        self.nodes[node.name] = node

    def mark(self, name: str, node: KubernetesNode) -> None:
        self._require_answer(name)
        self.nodes[node.name] = node

    def leave(self, name: str, node_name: str) -> None:
        if name in self.clusters:
            self._require_answer(name)
        self.nodes.pop(node_name, None)

    def stop_heartbeat(self, name: str, node_name: str) -> None:
        self._require_answer(name)
        self.silent.add(node_name)

    def _require_answer(self, name: str) -> None:
        if self.unavailable or name not in self.clusters:
            raise KubernetesUnavailableError("the API server does not answer")


_Prerequisites = tuple[str, str, str, str]
"""The VPC, the subnet, the security group and the ARN of the execution role."""
_first: Final[list[tuple[_Prerequisites, bytes]]] = []
"""What the first bench of the process created, and moto's state with it."""


class HyperPodBench:
    """An account with the prerequisites of a cluster.

    They are a VPC, a security group that allows all traffic with itself, an execution role, lifecycle scripts and an
    EKS cluster. With `slurm`, requests are for a cluster of Slurm, whose first group is the controller's. `journal`
    holds every recorded entry as (kind, fields); `hyperpod` is the simulator; `eks` holds the EKS clusters.
    """

    def __init__(self, *, slurm: bool = False) -> None:
        self.slurm = slurm
        self.clock = ManualClock()
        self.eks = EksRecords()
        self.journal: list[tuple[str, dict[str, Any]]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(patch.dict(os.environ, _MOTO_SETTINGS))
        self._stack.enter_context(mock_aws_for_boto3())
        background = Background(ACCOUNT_ID, REGION, self)  # type: ignore[arg-type]  # it only records
        self.hyperpod = HyperPodService(
            SimulatorState(
                account_id=ACCOUNT_ID,
                region=REGION,
                surroundings=AccountServices(ACCOUNT_ID, REGION, background),
                orchestrators=self.eks,
                timeline=Schedule(self.clock),
                record=self.record,
            )
        )
        api = HyperPodApi(self.hyperpod)
        self._stack.enter_context(serving(lambda *_: api))
        self.background = background
        self._furnish()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def record(self, kind: str, **fields: Any) -> None:
        """Append an entry to the journal."""
        self.journal.append((kind, fields))

    def record_once(self, kind: str, key: object, **fields: Any) -> None:
        """Leave out the policies of roles, which no test reads."""

    def client(self, service: str, role_arn: str | None = None, **options: Any) -> Any:
        """Return a boto3 client with the operator's credentials or, with `role_arn`, of a session of that role."""
        if role_arn is None:
            return _client(service, isolation.DUMMY_ACCESS_KEY, isolation.DUMMY_SECRET_KEY, **options)
        answer = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="bench")["Credentials"]
        keys = (answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])
        return _client(service, *keys, **options)

    def advance(self, minutes: float) -> None:
        """Advance the clock and carry out every transition that falls due, each at its own due time."""
        self.clock.present += timedelta(minutes=minutes)
        self.hyperpod.tick()

    def fault(self, **body: Any) -> dict[str, Any]:
        """Set faults and return the nodes that failed; see embedded_account.hyperpod.fault_requests."""
        return apply(self.hyperpod, body)

    def role(self, name: str, *policies: dict[str, Any], service: str = "lambda.amazonaws.com") -> str:
        """Create a role with these inline policies that `service` may assume; return its ARN."""
        iam = self.client("iam")
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
        }
        arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        for index, policy in enumerate(policies):
            iam.put_role_policy(RoleName=name, PolicyName=f"policy-{index}", PolicyDocument=json.dumps(policy))
        return arn

    def key(self) -> str:
        """Create a KMS key for volumes, and let the execution role make grants of it; return its ARN."""
        arn: str = self.client("kms").create_key()["KeyMetadata"]["Arn"]
        statement = {"Effect": "Allow", "Action": ["kms:CreateGrant", "kms:DescribeKey"], "Resource": arn}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client("iam").put_role_policy(RoleName="execution", PolicyName=arn[-36:], PolicyDocument=policy)
        return arn

    def request(self, **changes: Any) -> dict[str, Any]:
        """Return a valid CreateCluster request with a CPU and a GPU group; `changes` replace top-level members."""
        of_head = {"SlurmConfig": {"NodeType": "Controller"}} if self.slurm else {}
        orchestrator = {"Slurm": {}} if self.slurm else {"Eks": {"ClusterArn": self.eks.clusters["eks"].arn}}
        groups = [
            self.group("head-group", "ml.m5.2xlarge", 1, **of_head),
            self.group("worker-group-1", "ml.p5.48xlarge", 2),
        ]
        request = {
            "ClusterName": "ml-cluster",
            "InstanceGroups": groups,
            "VpcConfig": {"SecurityGroupIds": [self.security_group_id], "Subnets": [self.subnet_id]},
            "Orchestrator": orchestrator,
            "NodeRecovery": "Automatic",
            "NodeProvisioningMode": "Continuous",
        }
        return deepcopy(request | changes)

    def group(self, name: str, instance_type: str, count: int, **members: Any) -> dict[str, Any]:
        """Return an instance group for a request; `members` add to it or replace its members."""
        return {
            "InstanceGroupName": name,
            "InstanceType": instance_type,
            "InstanceCount": count,
            "ThreadsPerCore": 1,
            "ExecutionRole": self.execution_role,
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/eks", "OnCreate": "on_create.sh"},
            **({"SlurmConfig": {"NodeType": "Compute"}} if self.slurm else {}),
            **members,
        }

    def _furnish(self) -> None:
        """Create the prerequisites; all benches of a process after the first one get a copy of its prerequisites."""
        if not moto_internals.is_empty():  # inside another mock of moto
            made = self._create()
        elif not _first:
            made = self._create()
            _first.append((made, moto_internals.saved()))
        else:
            [(made, state)] = _first
            moto_internals.restore(state)
        self.vpc_id, self.subnet_id, self.security_group_id, self.execution_role = made
        self.add_eks_cluster("eks")

    def _create(self) -> _Prerequisites:
        ec2, s3 = self.client("ec2"), self.client("s3")
        vpc: str = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet: str = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/18", AvailabilityZoneId="usw2-az2")["Subnet"][
            "SubnetId"
        ]
        _give_way_out(ec2, vpc)
        group: str = ec2.create_security_group(GroupName="cluster", Description="cluster", VpcId=vpc)["GroupId"]
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
        s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh", Body=b"#!/bin/bash\n")
        return vpc, subnet, group, self.role("execution", EXECUTION_POLICY, service="sagemaker.amazonaws.com")

    def add_eks_cluster(self, name: str, **changes: Any) -> str:
        """Record an EKS cluster, by default ACTIVE and with authentication mode API; return its ARN."""
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT_ID}:cluster/{name}"
        fields = {"status": "ACTIVE", "authentication_mode": "API", "vpc_id": self.vpc_id, "version": "1.35"}
        self.eks.clusters[name] = EksDescription(name=name, arn=arn, **(fields | changes))
        return arn


def _give_way_out(ec2: Any, vpc: str) -> None:
    """Create a NAT gateway in a public subnet, because nodes call AWS's APIs."""
    internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=vpc)
    public = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.255.0/24")["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
    [main] = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    ec2.create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
