"""Price the standing costs of one side of a review, from its templates and the dated table of `config.estimates`.

The templates of both sides are priced, because a review knows no environment file of the other checkout. Where both can
be read, the sum is the one of `config.estimates.costs.estimate`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from config.estimates.costs import HOURS_PER_MONTH, SleepingNodes, control_plane, prices
from config.facts.add_ons import CLOUDWATCH
from config.facts.instance_types import GPU_RESOURCE, instance_type
from config.facts.versions import KUBERNETES_DEFAULT
from ops.review.assembly import RETAINED, Assembly, Properties, number
from ops.review.kubernetes.objects import MANIFEST, applied
from ops.review.kubernetes.sleeper import known_groups
from ops.review.model import StandingCosts
from ops.review.sleeping import ranges

BUDGET: Final = "AWS::Budgets::Budget"
_HYPERPOD: Final = "Custom::HyperPodCluster"
_CSI_DRIVER: Final = "fsx.csi.aws.com"
# They cost nothing, or by use: traffic, requests, stored bytes. A Helm release's pods run on nodes that are priced.
_WITHOUT_A_STANDING_PRICE: Final = frozenset(
    {
        *(
            f"AWS::EC2::{name}"
            for name in (
                *("FlowLog", "InternetGateway", "LaunchTemplate", "PrefixList", "Route", "RouteTable", "SecurityGroup"),
                *("SecurityGroupEgress", "SecurityGroupIngress", "Subnet", "SubnetRouteTableAssociation", "VPC"),
                "VPCGatewayAttachment",
            )
        ),
        # AWS Budgets' price page: budgets without actions are free.
        BUDGET,
        *("AWS::ECR::Repository", "AWS::EKS::AccessEntry", "AWS::Events::Rule"),
        *("AWS::FSx::DataRepositoryAssociation", "AWS::IAM::OIDCProvider", "AWS::IAM::Policy", "AWS::IAM::Role"),
        *("AWS::Lambda::Function", "AWS::Lambda::LayerVersion", "AWS::Logs::LogGroup", "AWS::S3::Bucket"),
        *("AWS::S3::BucketPolicy", "AWS::SNS::Subscription", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy"),
        *("AWS::SSM::Parameter", "AWS::StepFunctions::StateMachine", "Custom::AWSCDK-EKS-HelmChart"),
        *("Custom::CDKBucketDeployment", "Custom::FileSystemGuard", "Custom::HyperPodClusterTeardown"),
        "Custom::S3AutoDeleteObjects",
    }
)
_AT_ONE_PRICE: Final = {
    "AWS::CloudWatch::Alarm": ("CloudWatch alarm", "cloudwatch_alarm_month", HOURS_PER_MONTH),
    "AWS::CloudWatch::Dashboard": ("CloudWatch dashboard", "cloudwatch_dashboard_month", HOURS_PER_MONTH),
    "AWS::EC2::NatGateway": ("NAT gateway", "nat_gateway", 1),
}
"""What a resource is, the key of its price in the table, and the hours of that price."""
_NAMES: Final = {
    "AWS::APS::Workspace": "samples in the Prometheus workspace",
    "AWS::EC2::EIP": "public IPv4 address",
    "AWS::KMS::Key": "KMS key",
}


@dataclass(frozen=True)
class _Line:
    """One position of the bill; `usd_per_hour` is None if the table has no price for it."""

    what: str
    usd_per_hour: float | None
    gpus: int = 0


def bill(assembly: Assembly, base: Assembly | None = None) -> StandingCosts:
    """Return the standing costs per hour of all stacks of the assembly, and the number of their GPUs.

    What a deployment over `base` leaves in the account costs on. Raises ReviewError if a template or a manifest in it
    cannot be read.
    """
    kept = [line for each in _left(base, assembly) for line in _lines(each)] if base else []
    resources = (resource for stack in assembly.stacks.values() for resource in stack.resources.values())
    lines = [*(line for each in resources for line in _lines(each)), *_claimed_file_systems(assembly), *kept]
    unpriced = Counter(line.what for line in lines if line.usd_per_hour is None)
    return StandingCosts(
        usd_per_hour=sum(line.usd_per_hour or 0.0 for line in lines),
        gpus=sum(line.gpus for line in lines),
        unpriced=tuple(f"{what} ({count})" if count > 1 else what for what, count in unpriced.items()),
        budget_usd=_budget(assembly),
        kept_usd_per_hour=sum(line.usd_per_hour or 0.0 for line in kept),
        sleeping=tuple(_sleeping(assembly)),
    )


def usd_per_hour_of_nodes(kind: Any, count: int) -> float | None:
    """Return the price of `count` instances of the type; None if the table has none."""
    price = prices()["instances"].get(kind) if isinstance(kind, str) else None
    return None if price is None else float(price) * count


def _sleeping(assembly: Assembly) -> Iterator[SleepingNodes]:
    """Yield the groups whose sleeper can be read; those without a price are left out."""
    kinds = {
        group.get("InstanceGroupName"): group.get("InstanceType")
        for stack in assembly.stacks.values()
        for resource in stack.resources.values()
        if resource.get("Type") == _HYPERPOD
        for group in _groups(resource.get("Properties", {})) or []
    }
    known = known_groups(assembly)
    for name, (least, most) in (ranges(assembly) or {}).items():
        one = usd_per_hour_of_nodes(kinds.get(name), 1)
        if name in known and one is not None:
            yield SleepingNodes(name, least * one, most * one, known[name].sleep.hours_per_week)


def _groups(properties: Properties) -> list[Any] | None:
    groups = properties.get("InstanceGroups")
    return groups if isinstance(groups, list) else None


def _budget(assembly: Assembly) -> float | None:
    """Return the budget of a month; the smallest if there are several, None if none has a known amount."""
    amounts = [
        limit.get("Amount")
        for stack in assembly.stacks.values()
        for resource in stack.resources.values()
        if resource.get("Type") == BUDGET
        for data in [resource.get("Properties", {}).get("Budget", {})]
        for limit in [data.get("BudgetLimit", {})]
        if data.get("TimeUnit") == "MONTHLY" and limit.get("Unit") == "USD"
    ]
    return min((float(each) for each in amounts if isinstance(each, int | float)), default=None)


def _left(base: Assembly, head: Assembly) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of `base` that a deployment of `head` neither deletes nor manages any more."""
    for part, stack in base.stacks.items():
        now = head.stacks.get(part)
        # CloudFormation knows a stack by its name, and a deployment deletes none.
        if now is None or now.name != stack.name:
            yield from stack.resources.values()
        else:
            gone = stack.resources.keys() - now.resources.keys()
            yield from (stack.resources[name] for name in gone if _is_retained(stack.resources[name]))


def _is_retained(resource: Mapping[str, Any]) -> bool:
    return resource.get("DeletionPolicy") in RETAINED


def _lines(resource: Mapping[str, Any]) -> Iterator[_Line]:
    kind, properties = str(resource.get("Type", "")), resource.get("Properties", {})
    if kind in _AT_ONE_PRICE:
        what, key, hours = _AT_ONE_PRICE[kind]
        yield _Line(what, prices()[key] / hours)
    elif kind in _PRICED:
        yield from _PRICED[kind](properties)
    elif kind not in _WITHOUT_A_STANDING_PRICE | {MANIFEST}:
        yield _Line(_NAMES.get(kind, kind), None)


def _cluster(properties: Properties) -> Iterator[_Line]:
    groups = _groups(properties)
    if groups is None:
        yield _Line("HyperPod's nodes: the instance groups are known only at the deployment", None)
        return
    for group in groups:
        count = number(group.get("InstanceCount"))
        yield _nodes(f"instance group {group.get('InstanceGroupName')}", group.get("InstanceType"), count)
    if any(group.get("InstanceStorageConfigs") for group in groups):
        yield _Line("volumes of HyperPod's nodes", None)


def _nodes(whose: str, kind: Any, count: int | None) -> _Line:
    if count is None:
        return _Line(f"{whose}: its number of nodes is known only at the deployment", None)
    facts = instance_type(kind, None) if isinstance(kind, str) else None
    gpus = facts.accelerators * count if facts and facts.accelerator_resource == GPU_RESOURCE else 0
    price = usd_per_hour_of_nodes(kind, count)
    return _Line(f"{whose}: {count} x {kind}", price if count else 0.0, gpus)


def _node_group(properties: Properties) -> Iterator[_Line]:
    scaling, kinds = properties.get("ScalingConfig", {}), properties.get("InstanceTypes")
    kind = kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else None
    yield _nodes("system nodes", kind, number(scaling.get("DesiredSize", scaling.get("MinSize"))))
    yield _Line("volumes of system nodes", None)


def _control_plane(properties: Properties) -> Iterator[_Line]:
    # Without a version EKS takes one in standard support.
    version = properties.get("Version", KUBERNETES_DEFAULT)
    yield _Line(f"EKS control plane: {version}", control_plane(version) if isinstance(version, str) else None)


def _add_on(properties: Properties) -> Iterator[_Line]:
    if properties.get("AddonName") == CLOUDWATCH:
        yield _Line("Container Insights' observations", None)


def _grafana(_properties: Properties) -> Iterator[_Line]:
    yield _Line("Grafana workspace", prices()["grafana_editor_month"] / HOURS_PER_MONTH)
    yield _Line("more people who sign in to Grafana", None)


def _endpoint(properties: Properties) -> Iterator[_Line]:
    # A gateway endpoint costs nothing, and is what CloudFormation makes without a type.
    if properties.get("VpcEndpointType", "Gateway") != "Gateway":
        yield _Line("interface endpoint", None)


def _file_system(properties: Properties) -> Iterator[_Line]:
    lustre = properties.get("LustreConfiguration", {})
    capacity = number(properties.get("StorageCapacity"))
    ssd = properties.get("FileSystemType") == "LUSTRE" and properties.get("StorageType", "SSD") == "SSD"
    kind = lustre.get("DeploymentType") if ssd else None
    yield _lustre("FSx for Lustre", kind, lustre.get("PerUnitStorageThroughput"), capacity)


def _tracking_server(properties: Properties) -> Iterator[_Line]:
    size = properties.get("TrackingServerSize", "Small")
    yield _Line(f"MLflow tracking server: {size}", prices()["mlflow"].get(size))


def _lustre(what: str, deployment: Any, throughput: Any, capacity: int | None) -> _Line:
    month = prices()["fsx_gib_month"].get(str(throughput)) if deployment == "PERSISTENT_2" else None
    size = "a capacity known only at the deployment" if capacity is None else f"{capacity:,} GiB"
    price = None if month is None or capacity is None else month * capacity / HOURS_PER_MONTH
    return _Line(f"{what}: {size}, {throughput} MB/s per TiB", price)


def _claimed_file_systems(assembly: Assembly) -> Iterator[_Line]:
    """Yield a line for each file system that the CSI driver makes for a claim."""
    classes = {
        each.name: each.body.get("parameters") or {}
        for each in applied(assembly, "StorageClass")
        if each.body.get("provisioner") == _CSI_DRIVER
    }
    for claim in (each.body for each in applied(assembly, "PersistentVolumeClaim")):
        parameters = classes.get(claim["spec"].get("storageClassName"))
        if parameters is not None:
            ssd = parameters.get("storageType", "SSD") == "SSD"
            deployment = parameters.get("deploymentType") if ssd else None
            capacity = _gib(claim["spec"].get("resources", {}).get("requests", {}).get("storage"))
            yield _lustre(
                "FSx for Lustre for a claim", deployment, parameters.get("perUnitStorageThroughput"), capacity
            )


def _gib(quantity: Any) -> int | None:
    found = re.fullmatch(r"(\d+)(Gi|Ti)", str(quantity))
    return int(found[1]) * (1024 if found[2] == "Ti" else 1) if found else None


_PRICED: Final[Mapping[str, Callable[[Properties], Iterator[_Line]]]] = {
    _HYPERPOD: _cluster,
    "AWS::EKS::Addon": _add_on,
    "AWS::EKS::Nodegroup": _node_group,
    "AWS::EKS::Cluster": _control_plane,
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::FSx::FileSystem": _file_system,
    "AWS::Grafana::Workspace": _grafana,
    "AWS::SageMaker::MlflowTrackingServer": _tracking_server,
}
