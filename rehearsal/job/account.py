"""Run the account around the cluster: EKS's endpoint, and the people with access to it."""

import json
import logging
from pathlib import Path
from typing import Any

import boto3

from config import EksEnvironment, naming
from config.facts import support
from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine.isolation import child_environment, enter
from embedded_account.machine.processes import free_port
from embedded_account.server import AccountServer, make_account
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from k8s_charts.shared.names import submitters_group
from rehearsal.extensions import EXTENSIONS
from rehearsal.paths import NODE_MODULES

_CLOCK_SCALE = 300


class RunningControlPlane:
    """A control plane that runs before its EKS cluster is created; the code that started it also stops it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.admin_kubeconfig = plane.admin_kubeconfig

    @property
    def endpoint(self) -> str:
        return self._plane.endpoint

    @property
    def ca_pem(self) -> bytes:
        return self._plane.ca_pem

    @property
    def api(self) -> KubernetesClient:
        return self._plane.api

    def start(self) -> None:
        """Do nothing: it is running."""

    def upgrade(self, version: str) -> None:
        self._plane.upgrade(version)

    def stop(self) -> None:
        """Do nothing: its owner stops it."""


class JobAccount:
    """An embedded account in this process, with one EKS cluster and one submitter."""

    def __init__(self, environment: EksEnvironment, directory: Path, binaries: Path) -> None:
        self._environment = environment
        self._directory = directory
        self.cluster = naming.eks_cluster(environment)
        account = make_account(
            account_id=environment.account,
            region=environment.region,
            port=free_port(),
            directory=directory,
            binaries=binaries,
            node_modules=NODE_MODULES,
            clock_scale=_CLOCK_SCALE,
        )
        self._server = AccountServer(account, EXTENSIONS)

    @property
    def authenticator_url(self) -> str:
        """Return the URL at which the control plane asks for the owner of a token."""
        return self._account.authenticator_url(self.cluster)

    def start(self) -> None:
        """Start serving, with nothing of the caller's AWS configuration in this process."""
        enter(self._child_environment({}))
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # otherwise each request is a line
        self._server.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()

    def adopt(self, plane: ControlPlane) -> None:
        """Create the EKS cluster of a running control plane, and grant the environment's submitters access."""
        self._account.clusters = ClusterHost(self._account, make=lambda *_: RunningControlPlane(plane))
        ec2, iam, eks = (self._client(service) for service in ("ec2", "iam", "eks"))
        vpc = ec2.create_vpc(CidrBlock=str(self._environment.network.vpc_cidr))["Vpc"]["VpcId"]
        blocks = list(self._environment.network.vpc_cidr.subnets(new_prefix=20))[:2]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=str(block), AvailabilityZoneId=zone)["Subnet"]["SubnetId"]
            for block, zone in zip(blocks, self._environment.network.zones, strict=True)
        ]
        role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument=_trust({"Service": "eks.amazonaws.com"}))
        iam.attach_role_policy(RoleName="cluster", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
        eks.create_cluster(
            name=self.cluster,
            version=self._environment.eks.version,
            roleArn=role["Role"]["Arn"],
            resourcesVpcConfig={"subnetIds": subnets},
            accessConfig={"authenticationMode": "API"},
        )
        service_of(self._account).wait_until_active(self.cluster)
        [submitter] = self._environment.access.submitters
        name = submitter.rsplit("/", 1)[1]
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=_trust({"AWS": self._environment.account}))
        allowed = {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_role_policy(RoleName=name, PolicyName="find-the-cluster", PolicyDocument=policy)
        group = submitters_group(self._environment.ray.namespace)
        eks.create_access_entry(clusterName=self.cluster, principalArn=submitter, kubernetesGroups=[group])

    def submitters_environment(self) -> dict[str, str]:
        """Return the environment variables of a process with the submitter's credentials."""
        [submitter] = self._environment.access.submitters
        keys = self._client("sts").assume_role(RoleArn=submitter, RoleSessionName="rehearsal")["Credentials"]
        return self._child_environment(
            {
                "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
                "AWS_SESSION_TOKEN": keys["SessionToken"],
            }
        )

    @property
    def _account(self) -> Account:
        return self._server.account

    def _child_environment(self, extra: dict[str, str]) -> dict[str, str]:
        return child_environment(
            self._directory,
            endpoint=self._account.endpoint,
            region=self._environment.region,
            account_id=self._environment.account,
            extra={support.TODAY_VARIABLE: str(support.today()), **extra},
        )

    def _client(self, service: str) -> Any:
        session: Any = boto3.Session(
            aws_access_key_id=self._account.keys.access_key_id,
            aws_secret_access_key=self._account.keys.secret_access_key,
            region_name=self._environment.region,
        )
        return session.client(service, endpoint_url=self._account.endpoint)


def _trust(principal: dict[str, str]) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
