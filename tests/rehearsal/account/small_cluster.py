"""Create the HyperPod cluster of `small`, or one of Slurm, in a test's embedded account, without a deployment."""

import json
from collections.abc import Iterable, Mapping

from config import Environment, SlurmEnvironment, load, naming
from embedded_account.hyperpod.bench import EXECUTION_POLICY
from embedded_account.testing.clients import Clients
from embedded_account.testing.cluster import Kubectl
from embedded_account.testing.eks_setup import make_network
from embedded_account.testing.ways_out import give_way_out

SMALL = load("small")


def create_hyperpod(clients: Clients, cluster_arn: str, vpc: str, subnet: str) -> None:
    """Create the HyperPod cluster of `small`, with the same groups."""
    _create(clients, SMALL, vpc, subnet, {"Eks": {"ClusterArn": cluster_arn}})


def create_slurm(clients: Clients, environment: SlurmEnvironment) -> None:
    """Create the environment's HyperPod cluster in a network of its own, with the same groups."""
    vpc, [subnet, _] = make_network(clients)
    give_way_out(clients("ec2"), vpc)
    _create(clients, environment, vpc, subnet, {"Slurm": {}})


def _create(
    clients: Clients, environment: Environment, vpc: str, subnet: str, orchestrator: Mapping[str, Mapping[str, str]]
) -> None:
    ec2, iam, s3 = clients("ec2"), clients("iam"), clients("s3")
    group = ec2.create_security_group(GroupName="shared", Description="shared", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    # As CloudFormation names it: people's policies match the logical id.
    name = f"{naming.stack(environment, 'hyperpod')}-ExecutionRole605A040B-5RLHR3CGNLBQ"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=json.dumps(EXECUTION_POLICY))
    s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": environment.region})
    s3.put_object(Bucket="sagemaker-scripts", Key="scripts/on_create.sh", Body=b"#!/bin/bash\n")
    groups = [
        {
            "InstanceGroupName": each.name,
            "InstanceType": each.instance_type,
            "InstanceCount": each.count,
            "ThreadsPerCore": 1,
            "ExecutionRole": role,
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/scripts", "OnCreate": "on_create.sh"},
            **({"SlurmConfig": {"NodeType": each.slurm.node.title()}} if each.slurm else {}),
        }
        for each in environment.hyperpod.instance_groups
    ]
    clients("sagemaker").create_cluster(
        ClusterName=environment.hyperpod.cluster_name,
        InstanceGroups=groups,
        VpcConfig={"SecurityGroupIds": [group], "Subnets": [subnet]},
        Orchestrator=orchestrator,
        Tags=[{"Key": "project", "Value": environment.project}, {"Key": "environment", "Value": environment.name}],
        NodeProvisioningMode="Continuous",
        NodeRecovery="Automatic",
    )


def install_dependencies(kubectl: Kubectl, namespaces: Iterable[str] = ()) -> None:
    """Create what HyperPod requires of its dependencies chart, and these namespaces."""
    for name in ("aws-hyperpod", *namespaces):
        kubectl("create", "namespace", name)
    own = {"app": "health-monitoring-agent"}
    template = {
        "metadata": {"labels": own},
        "spec": {
            "containers": [{"name": "agent", "image": "example.invalid/agent:1"}],
            "nodeSelector": {"no": "node"},
        },
    }
    kubectl.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "health-monitoring-agent", "namespace": "aws-hyperpod"},
            "spec": {"selector": {"matchLabels": own}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "deep-health-check-service-account", "namespace": "aws-hyperpod"},
        },
    )
