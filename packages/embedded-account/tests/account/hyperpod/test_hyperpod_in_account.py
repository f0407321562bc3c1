"""Test the simulator in the account's own process, with a real control plane behind its EKS cluster."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from botocore.exceptions import ClientError
from urllib3.exceptions import HTTPError

from embedded_account.hyperpod.bench import EXECUTION_POLICY
from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine import isolation
from embedded_account.machine.processes import ProcessSupervisor, free_port
from embedded_account.run_keys import RunKeys
from embedded_account.testing.clients import NODE_MODULES
from embedded_account.testing.waiting import PATIENCE_SECONDS, wait_until
from embedded_account.testing.ways_out import give_way_out

ACCOUNT_ID = "111122223333"
REGION = "us-west-2"
NAME = {"ClusterName": "ml-cluster"}
MINUTES_PER_SECOND = 10


class ServedAccount:
    """A client of the account's process, by its endpoint."""

    def __init__(self, endpoint: str, directory: Path, keys: RunKeys) -> None:
        self.endpoint = endpoint
        self.directory = directory
        self._pool = urllib3.PoolManager(headers=keys.control_headers)
        self.session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=REGION)

    def client(self, service: str) -> Any:
        return self.session.client(service, endpoint_url=self.endpoint)

    def post(self, path: str, body: object) -> tuple[int, Any]:
        answer = self._pool.request("POST", f"{self.endpoint}/_rehearsal/{path}", body=json.dumps(body))
        return answer.status, answer.json()

    def kubernetes(self, cluster: str) -> KubernetesClient:
        return KubernetesClient.from_kubeconfig(next((self.directory / "clusters" / cluster).rglob("admin.kubeconfig")))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, binaries: Binaries) -> Iterator[ServedAccount]:
    directory = tmp_path_factory.mktemp("served")
    (quotas := directory / "quotas.yaml").write_text("sagemaker:\n  ml.p5.48xlarge for cluster usage: 2\n")
    port = free_port()
    endpoint = f"http://localhost:{port}"
    arguments = {
        "--port": port,
        "--account-id": ACCOUNT_ID,
        "--region": REGION,
        "--directory": directory,
        "--binaries": binaries.directory,
        "--node-modules": NODE_MODULES,
        "--clock-scale": MINUTES_PER_SECOND * 60,
        "--quotas": quotas,
    }
    given = (str(word) for pair in arguments.items() for word in pair)
    argv = [sys.executable, "-m", "embedded_account", "serve", *given]
    keys = RunKeys.issue()
    own = keys.in_environment
    environment = isolation.child_environment(directory, region=REGION, account_id=ACCOUNT_ID, extra=own)
    health = f"{endpoint}/_rehearsal/health"

    def answers() -> bool:
        try:
            return urllib3.request("GET", health, headers=keys.control_headers, retries=False).status == 200
        except HTTPError:
            return False

    supervisor = ProcessSupervisor(directory)
    supervisor.start("account", argv, environment, ready=answers, timeout=PATIENCE_SECONDS)
    yield ServedAccount(endpoint, directory, keys)
    supervisor.stop_all(grace=30)


@pytest.fixture(scope="module")
def request_for_cluster(served: ServedAccount) -> dict[str, Any]:
    """Return a CreateCluster request for a running EKS cluster without the dependencies chart."""
    ec2, iam, s3 = served.client("ec2"), served.client("iam"), served.client("s3")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{64 * n}.0/18", AvailabilityZoneId=f"usw2-az{n + 1}")["Subnet"]
        for n in range(2)
    ]
    give_way_out(ec2, vpc)
    group = ec2.create_security_group(GroupName="shared", Description="shared", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    roles = {}
    for name in ("eks", "sagemaker"):
        principal = {"Service": f"{name}.amazonaws.com"}
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        roles[name] = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName="sagemaker", PolicyName="all", PolicyDocument=json.dumps(EXECUTION_POLICY))
    s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh", Body=b"#!/bin/bash\n")
    eks = served.client("eks")
    created = eks.create_cluster(
        name="eks",
        version="1.35",
        roleArn=roles["eks"],
        accessConfig={"authenticationMode": "API"},
        resourcesVpcConfig={"subnetIds": [subnet["SubnetId"] for subnet in subnets]},
    )
    eks.get_waiter("cluster_active").wait(name="eks", WaiterConfig={"Delay": 1, "MaxAttempts": 60})

    def instance_group(name: str, instance_type: str, count: int, **members: Any) -> dict[str, Any]:
        return {
            "InstanceGroupName": name,
            "InstanceType": instance_type,
            "InstanceCount": count,
            "ThreadsPerCore": 1,
            "ExecutionRole": roles["sagemaker"],
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/eks", "OnCreate": "on_create.sh"},
            **members,
        }

    return {
        **NAME,
        "InstanceGroups": [
            instance_group("head-group", "ml.m5.2xlarge", 1),
            instance_group("worker-group-1", "ml.p5.48xlarge", 2, OnStartDeepHealthChecks=["InstanceStress"]),
        ],
        "VpcConfig": {"SecurityGroupIds": [group], "Subnets": [subnets[0]["SubnetId"]]},
        "Orchestrator": {"Eks": {"ClusterArn": created["cluster"]["arn"]}},
        "NodeProvisioningMode": "Continuous",
        "NodeRecovery": "Automatic",
    }


def install_dependencies(api: KubernetesClient) -> None:
    """Create those objects of the HyperPod dependencies chart that the simulator requires."""
    labels = {"app": "health-monitoring-agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "agent", "image": "example.invalid/agent:1"}]},
    }
    api.create("/api/v1/namespaces", {"metadata": {"name": "aws-hyperpod"}})
    api.create(
        "/apis/apps/v1/namespaces/aws-hyperpod/daemonsets",
        {
            "metadata": {"name": "health-monitoring-agent"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    )
    api.create(
        "/api/v1/namespaces/aws-hyperpod/serviceaccounts", {"metadata": {"name": "deep-health-check-service-account"}}
    )


def test_cluster_lives_in_a_real_control_plane(served: ServedAccount, request_for_cluster: dict[str, Any]) -> None:
    sagemaker, api = served.client("sagemaker"), served.kubernetes("eks")

    def kubernetes_nodes() -> dict[str, Any]:
        return {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}

    def tainted() -> list[Any]:
        key = "sagemaker.amazonaws.com/node-health-status"
        every = kubernetes_nodes().values()
        return [node for node in every if key in {taint["key"] for taint in node["spec"].get("taints", [])}]

    def running() -> set[str]:
        listed = sagemaker.list_cluster_nodes(**NAME)["ClusterNodeSummaries"]
        return {node["InstanceId"] for node in listed if node["InstanceStatus"]["Status"] == "Running"}

    with pytest.raises(ClientError, match="eks is missing one or more required dependencies"):
        sagemaker.create_cluster(**request_for_cluster)
    install_dependencies(api)

    sagemaker.create_cluster(**request_for_cluster)
    wait_until(lambda: len(kubernetes_nodes()) == 3, "three nodes join")
    types = {node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in tainted()}
    assert types == {"ml.p5.48xlarge"}
    wait_until(lambda: len(running()) == 3, "deep health checks pass")
    assert tainted() == []
    entries = served.client("eks").list_access_entries(clusterName="eks")["accessEntries"]
    names = {entry.rpartition("/")[2] for entry in entries}
    assert {"sagemaker", "AWSServiceRoleForSageMakerHyperPod"} <= names

    _, answer = served.post("hyperpod/faults", {"fail_node": {"group": "worker-group-1"}})
    (failed,) = answer["failed_nodes"]
    wait_until(lambda: len(running() - {failed}) == 3, "the faulty node is replaced")
    assert kubernetes_nodes().keys() == {f"hyperpod-{instance_id}" for instance_id in running()}

    sagemaker.delete_cluster(**NAME)
    wait_until(lambda: sagemaker.list_clusters()["ClusterSummaries"] == [], "the cluster is deleted")
    assert kubernetes_nodes() == {}


def test_wrong_fault_is_answered_with_what_is_allowed(served: ServedAccount) -> None:
    status, answer = served.post("hyperpod/faults", {"capacty": {}})
    assert status == 400
    assert "Allowed faults: capacity" in answer["error"]
