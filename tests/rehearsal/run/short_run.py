"""`python -m rehearsal run`, in which one step stands for all: an EKS cluster is made, and is there for ever.

Everything around that step is the rehearsal's own, and so are the account and the control plane.
"""

import json
import threading
from collections.abc import Sequence

from rich.console import Console

from config import naming
from rehearsal import __main__
from rehearsal.run import rehearse
from rehearsal.run.steps import Rehearsal

TITLE = "the cluster is there for ever"


def steps(rehearsal: Rehearsal, console: Console, *, keep: bool, jobs: bool, kills: Sequence[float]) -> None:
    """Begin as a rehearsal does, then wait."""
    console.print("one cluster, and nothing in it")
    rehearsal.make_project()
    rehearsal.start_account(keep=keep)
    with rehearsal.progress.step("an EKS cluster"):
        make_cluster(rehearsal)
    with rehearsal.progress.step(TITLE):
        (rehearsal.directory / "cluster-is-there").touch()
        threading.Event().wait()
    with rehearsal.progress.step("the step after it"):
        pass


def make_cluster(rehearsal: Rehearsal) -> None:
    """Make the environment's EKS cluster with what EKS requires for it, and nothing else."""
    ec2, iam, eks = (rehearsal.account.client(service) for service in ("ec2", "iam", "eks"))
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    zones = enumerate(rehearsal.environment.network.zones)
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{n}.0/24", AvailabilityZoneId=zone)["Subnet"]["SubnetId"]
        for n, zone in zones
    ]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.attach_role_policy(RoleName="cluster", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    name = naming.eks_cluster(rehearsal.environment)
    network = {"subnetIds": subnets}
    eks.create_cluster(
        name=name,
        version=rehearsal.environment.eks.version,
        roleArn=role,
        resourcesVpcConfig=network,
        accessConfig={"authenticationMode": "API"},
    )
    eks.get_waiter("cluster_active").wait(name=name, WaiterConfig={"Delay": 1})


if __name__ == "__main__":
    rehearse._steps = steps
    __main__.app()
