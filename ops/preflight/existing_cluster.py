"""Checks of an existing EKS cluster: that it is as the environment says, and can hold HyperPod's nodes."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from config import EksEnvironment
from config.model import ExistingEks
from ops.clients import connect
from ops.errors import UnreachableError
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here
from ops.readiness.kubeflow import findings

_CORRECT = "correct eks of the environment: `aws eks describe-cluster --name {name}` shows it"


def cluster(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require the cluster with its version, VPC, security group, identity provider, access and private endpoint.

    AWS: eks DescribeCluster. Source: SageMaker AI developer guide, "Orchestrating HyperPod with EKS", requirements:
    authentication mode API or API_AND_CONFIG_MAP; docs/operate/existing-eks.md.
    """
    existing = here.environment.eks.existing
    if existing is None:
        return
    try:
        found = here.client("eks").describe_cluster(name=existing.name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        fix = "correct eks.existing.name: `aws eks list-clusters` lists the names"
        yield failed("there is no such cluster in this region", fix, existing.name)
        return
    wrong = [*_differences(here, existing, found), *_unfit(existing, found, here.environment.region)]
    yield from wrong
    if not wrong:
        yield passed(f"{found['status']}, Kubernetes {found['version']}, as the environment says", existing.name)


def _differences(here: Here[EksEnvironment], existing: ExistingEks, found: dict[str, Any]) -> Iterator[CheckFinding]:
    """Yield where the environment's file is wrong about the cluster."""
    network, vpc = found["resourcesVpcConfig"], here.environment.network.existing
    issuer = found.get("identity", {}).get("oidc", {}).get("issuer", "")
    facts = {
        "eks.version": (here.environment.eks.version, found["version"]),
        "network.existing.id": (vpc.id if vpc else "", network["vpcId"]),
        "eks.existing.security_group": (existing.security_group, network.get("clusterSecurityGroupId")),
        "eks.existing.oidc_provider_arn": (
            existing.oidc_provider_arn.partition(":oidc-provider/")[2],
            issuer.removeprefix("https://"),
        ),
    }
    for key, (stated, real) in facts.items():
        if stated != real:
            text = f"{key} is {stated}, and the cluster has {real}"
            yield failed(text, _CORRECT.format(name=existing.name), existing.name)


def _unfit(existing: ExistingEks, found: dict[str, Any], region: str) -> Iterator[CheckFinding]:
    """Yield what the cluster's owner has to change."""
    update = f"aws eks update-cluster-config --name {existing.name} --region {region}"
    if found["status"] not in ("ACTIVE", "UPDATING"):
        yield failed(f"its status is {found['status']}", "wait, or ask its owner", existing.name)
    mode = found.get("accessConfig", {}).get("authenticationMode")
    if mode not in ("API", "API_AND_CONFIG_MAP"):
        fix = f"{update} --access-config authenticationMode=API_AND_CONFIG_MAP"
        yield failed(f"its authentication mode is {mode}; HyperPod needs access entries", fix, existing.name)
    if not found["resourcesVpcConfig"].get("endpointPrivateAccess"):
        fix = f"{update} --resources-vpc-config endpointPrivateAccess=true"
        yield failed("its private endpoint is off; nodes and functions use it", fix, existing.name)


def add_on(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require the VPC CNI in the version that the environment states: rules judge that version.

    AWS: eks DescribeAddon. Source: docs/operate/existing-eks.md.
    """
    existing = here.environment.eks.existing
    if existing is None:
        return
    try:
        found = here.client("eks").describe_addon(clusterName=existing.name, addonName="vpc-cni")["addon"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        fix = f"aws eks create-addon --cluster-name {existing.name} --addon-name vpc-cni"
        yield failed("is not a managed add-on of the cluster", fix, "vpc-cni")
        return
    version = found["addonVersion"]
    if version == existing.vpc_cni:
        yield passed(version, "vpc-cni")
    else:
        text = f"{version}; the environment says {existing.vpc_cni}"
        yield failed(text, "correct eks.existing.vpc_cni, then run `ops check`", "vpc-cni")


def installed_add_ons(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require that the cluster lacks the add-ons that the ray stack installs: EKS has each add-on once.

    AWS: eks ListAddons. Source: EKS API reference, CreateAddon (ResourceInUseException); docs/operate/observe-aws.md.
    """
    existing, environment = here.environment.eks.existing, here.environment
    wanted = environment.observing_add_ons
    if existing is None or not wanted:
        return
    try:
        found = here.pages("eks", "list_addons", "addons", clusterName=existing.name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return  # `cluster` says that there is no such cluster.
    for key, name in wanted.items():
        if name not in found:
            yield passed("the cluster lacks it, and the ray stack installs it", name)
        elif here.deployed.owns("AWS::EKS::Addon", f"{existing.name}|{name}"):
            yield passed("is the environment's own", name)
        else:
            delete = f"aws eks delete-addon --cluster-name {existing.name} --addon-name {name}"
            fix = f"remove {key}, or: {delete} --region {environment.region}"
            yield failed("the cluster has it, and no stack of this environment owns it", fix, name)


def kubeflow(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require a Kubernetes API that answers, and warn of parts of Kubeflow that HyperPod's chart would install again.

    Kubernetes: namespaces and CRDs, as `ops check --live`. Source: docs/operate/existing-eks.md.
    """
    existing = here.environment.eks.existing
    if existing is None:
        return
    try:
        with connect(here.environment) as clients:
            found = list(findings(here.environment, clients.kubernetes))
    except UnreachableError as error:
        text, _, fix = str(error).partition(". Fix: ")
        yield warned(f"not checked: {text}", fix, existing.name)
        return
    for finding in found:
        yield warned(finding.reason, finding.fix, existing.name)
    if not found:
        yield passed("answers, and has nothing that HyperPod's chart would install again", existing.name)
