"""Plan a destroy: what goes, what stays and what it costs, and what forbids it now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from config import Environment, naming
from config.estimates import costs
from ops import stacks
from ops.review.assembly import RETAINED
from ops.stacks import DeployedStack

_NOTABLE: Final = {
    "Custom::HyperPodCluster": "HyperPod cluster",
    "AWS::EKS::Cluster": "EKS cluster",
    "AWS::FSx::FileSystem": "file system",
    "AWS::S3::Bucket": "bucket",
    "AWS::ECR::Repository": "image repository",
    "AWS::SageMaker::MlflowTrackingServer": "MLflow tracking server",
    "AWS::EC2::VPC": "VPC",
}
"""Types whose resources a person must know to go: they hold data, or all else stands on them."""
_DATA: Final = {
    "AWS::FSx::FileSystem": "file system",
    "AWS::S3::Bucket": "bucket",
    "AWS::ECR::Repository": "images of repository",
    "AWS::SageMaker::MlflowTrackingServer": "MLflow tracking server",
    "AWS::APS::Workspace": "metrics of workspace",
    "AWS::Logs::LogGroup": "log group",
}
"""Types whose resources hold data that nothing brings back, the most valuable first."""
_BY_VALUE: Final = tuple(_DATA.values())


@dataclass(frozen=True)
class Going:
    """A stack that is destroyed, how many resources of each kind go with it, and which of them are notable."""

    stack: DeployedStack
    kinds: Mapping[str, int]
    notable: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """What is deleted for good with the stack, in words."""


@dataclass(frozen=True)
class Staying:
    """Something that exists after the destroy."""

    title: str
    reason: str
    holds_data: bool = False
    usd_per_hour: float = 0.0
    """What it costs, if the file's estimate has a price for it."""


@dataclass(frozen=True)
class DestroyPlan:
    """What a destroy does. `going` is in the order of the deletion."""

    going: tuple[Going, ...]
    staying: tuple[Staying, ...]
    templates: tuple[Mapping[str, Any], ...]
    """The deployed templates of the stacks that stay."""
    busy: tuple[DeployedStack, ...]
    """Stacks in which another change runs: they forbid the destroy."""

    @property
    def data(self) -> list[str]:
        """Return the data that is deleted for good, the most valuable first."""
        found = [each for going in self.going for each in going.data]
        return sorted(found, key=lambda each: next(n for n, title in enumerate(_BY_VALUE) if each.startswith(title)))


def plan(cloudformation: Any, environment: Environment) -> DestroyPlan:
    """Look at the environment's stacks and plan its destroy; it changes nothing."""
    found = stacks.existing(cloudformation, environment)
    going, staying, kept = [], [], []
    cost = costs.by_part(environment)
    for stack in found:
        template = stacks.template(cloudformation, stack)
        listed = stacks.resources(cloudformation, stack)
        if stack.protected:
            kept.append(template)
            reason = "it has termination protection (protect: true)"
            staying.append(Staying(f"stack {stack.name}", reason, True, cost.get(stack.part, 0.0)))
            continue
        retained = _retained(template)
        goes = [each for each in listed if each["LogicalResourceId"] not in retained]
        data = [*_named(goes, _DATA), *_of_the_claim(environment, stack)]
        going.append(Going(stack, _counted(goes), tuple(_named(goes, _NOTABLE)), tuple(data)))
        staying += _kept(stack, listed, retained)
    staying += _without_a_stack(environment, found)
    return DestroyPlan(tuple(going), tuple(staying), tuple(kept), tuple(each for each in found if each.is_busy))


def _retained(template: Mapping[str, Any]) -> set[str]:
    """Return the logical ids that CloudFormation does not delete with the stack."""
    resources = template.get("Resources", {})
    return {id for id, resource in resources.items() if resource.get("DeletionPolicy") in RETAINED}


def _kept(stack: DeployedStack, listed: Sequence[Mapping[str, Any]], retained: set[str]) -> Iterator[Staying]:
    for each in listed:
        if each["LogicalResourceId"] in retained:
            name = f"{_title(each)} {each.get('PhysicalResourceId', each['LogicalResourceId'])}"
            yield Staying(name, f"stack {stack.name} says that it is kept", holds_data=True)


def _of_the_claim(environment: Environment, stack: DeployedStack) -> Iterator[str]:
    """Yield the file system that the CSI driver made, if the driver deletes it with the ray stack."""
    if stack.part == "ray" and environment.fsx.dynamic and environment.fsx.reclaim_policy != "Retain":
        yield "file system of the claim"


def _named(listed: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> Iterator[str]:
    for each in listed:
        if title := titles.get(each["ResourceType"]):
            yield f"{title} {each.get('PhysicalResourceId', each['LogicalResourceId'])}"


def _counted(listed: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in listed:
        name = _title(each)
        counts[name] = counts.get(name, 0) + 1
    return counts


def _without_a_stack(environment: Environment, found: Sequence[DeployedStack]) -> Iterator[Staying]:
    if environment.network.existing:
        yield Staying(f"VPC {environment.network.existing.id}", "it existed before")
    if environment.existing_eks:
        yield Staying(f"EKS cluster {naming.eks_cluster(environment)}", "it existed before")
    if environment.fsx.existing:
        yield Staying(f"file system {environment.fsx.existing.id}", "it existed before", holds_data=True)
    if found and (key := environment.company.kms_key):
        yield Staying(f"KMS key {key.rpartition('/')[2]}", "it is the company's")
    if (
        any(stack.part == "ray" for stack in found)
        and environment.fsx.dynamic
        and environment.fsx.reclaim_policy == "Retain"
    ):
        reason = "reclaim_policy is Retain: the first run stops at it"
        yield Staying("the file system of the claim", reason, True, costs.by_part(environment)["ray"])
    if found:
        yield Staying("log groups that AWS services made", f"`ops sweep --env {environment.name}` lists them")
        yield Staying("CDK's bootstrap stack", "other CDK apps of the account may use it")


def _title(resource: Mapping[str, Any]) -> str:
    """Return the resource's type without the vendor: `FSx::FileSystem`."""
    return str(resource["ResourceType"]).removeprefix("AWS::")
