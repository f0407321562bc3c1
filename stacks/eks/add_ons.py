"""EKS managed add-ons."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from config.facts.add_ons import known_add_ons
from config.facts.versions import VPC_CNI
from config.model import AddOn, AddOnRole
from stacks.shared.irsa import IrsaRole
from stacks.shared.nag_suppressions import acknowledge, managed_policy

# Add-ons that a node needs to become Ready, with the configuration that the project relies on. A public record of a
# cluster with vpc-cni v1.22.4-eksbuild.3 has this value, as text (August 2026).
_BEFORE_NODES: Final[Mapping[str, Mapping[str, str]]] = {
    "vpc-cni": {"enableNetworkPolicy": "true"},
    "kube-proxy": {},
    "eks-pod-identity-agent": {},
}
# Add-ons that become healthy only once nodes exist.
_AFTER_NODES: Final = ("coredns",)
# Other add-ons get the build that EKS uses by default for the cluster's Kubernetes version.
_PINNED: Final = {"vpc-cni": VPC_CNI}
_AWS_MANAGED: Final = "arn:aws:iam::aws:policy/"


def eks_add_ons(scope: Construct, *, cluster: eks.ICluster, add_ons: Sequence[AddOn], nodes: eks.CfnNodegroup) -> None:
    """Create the four add-ons of every cluster and those of `add_ons`, which may also describe the four."""
    described = {each.name: each for each in add_ons}
    for name in (*_BEFORE_NODES, *_AFTER_NODES):
        described.setdefault(name, AddOn(name=name))
    for name, configuration in _BEFORE_NODES.items():
        nodes.node.add_dependency(_described(scope, cluster, described.pop(name), configuration))
    for add_on in described.values():
        _described(scope, cluster, add_on).node.add_dependency(nodes)


def eks_add_on(
    scope: Construct,
    name: str,
    *,
    cluster: eks.ICluster,
    version: str | None = None,
    configuration: str | None = None,
    role_arn: str | None = None,
) -> eks.CfnAddon:
    """Return an add-on that overwrites what EKS installed when it created the cluster (`OVERWRITE`)."""
    return eks.CfnAddon(
        scope,
        f"AddOn-{name}",
        cluster_name=cluster.cluster_name,
        addon_name=name,
        addon_version=version,
        resolve_conflicts="OVERWRITE",
        configuration_values=configuration,
        service_account_role_arn=role_arn,
    )


def add_on_role(
    scope: Construct, add_on: str, *, cluster: eks.ICluster, description: str, statements: list[iam.PolicyStatement]
) -> IrsaRole:
    """Return a role for the service account of an add-on that `config.facts.add_ons` knows."""
    known = known_add_ons()[add_on]
    return IrsaRole(
        scope,
        "Role",
        cluster=cluster,
        namespace=known.namespace,
        service_account=known.service_account,
        description=description,
        statements=statements,
    )


def _described(
    scope: Construct, cluster: eks.ICluster, add_on: AddOn, relied_on: Mapping[str, str] | None = None
) -> eks.CfnAddon:
    configuration = {**(relied_on or {}), **add_on.configuration}
    role = _role(scope, cluster, add_on, add_on.role) if add_on.role else None
    return eks_add_on(
        scope,
        add_on.name,
        cluster=cluster,
        version=add_on.version or _PINNED.get(add_on.name),
        configuration=json.dumps(configuration) if configuration else None,
        role_arn=role.arn if role else None,
    )


def _role(scope: Construct, cluster: eks.ICluster, add_on: AddOn, wanted: AddOnRole) -> IrsaRole:
    role = IrsaRole(
        scope,
        f"AddOnRole-{add_on.name}",
        cluster=cluster,
        namespace=add_on.namespace_used,
        service_account=add_on.service_account,
        description=f"EKS add-on {add_on.name}: the policies that eks.add_ons lists",
        managed_policies=wanted.policies,
    )
    for policy in wanted.policies:
        if policy.startswith(_AWS_MANAGED):
            found = managed_policy(policy.removeprefix(_AWS_MANAGED))
            acknowledge(role, "The environment gives the add-on this policy", found)
    return role
