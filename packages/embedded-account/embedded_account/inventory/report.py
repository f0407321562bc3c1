"""List everything that exists in the account, with its owner.

The owner of a resource is the stack that created it, a service that created it on its own, the bootstrap, or nobody.
The account starts empty, also without a default VPC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from embedded_account.context import Account
from embedded_account.hyperpod.api.tracking_servers import TrackingServers
from embedded_account.inventory.sources import PENDING_DELETION, InventoryResource, found_in_account
from embedded_account.services.grafana import Workspaces

NOBODY = "nobody"
EXISTING = "existing"
"""The owner of what existed before the environment (embedded_account/existing.py)."""
BOOTSTRAP = "bootstrap"
BOOTSTRAP_STACK = "CDKToolkit"
"""The name of CDK's own stack; one with a qualifier has it after a hyphen by convention."""
KEPT_BY_KMS = "background:kms"
"""The owner of a deleted key: KMS deletes no key at once, but keeps it for its waiting period, free of charge."""

_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
_MADE_BY_CUSTOM_RESOURCES = ("AWS::SageMaker::Cluster", "AWS::IAM::OIDCProvider")
"""Types that custom resources create, with the resource's name or ARN as their physical id."""


@dataclass(frozen=True)
class InventoryItem:
    """One resource.

    `owner` is a stack's name, "bootstrap", "existing", "nobody", or "background:" with the ARN of the service's
    resource that created it ("background:kms" for a key that waits for its deletion). `type` is CloudFormation's
    (moto's for services that the project does not use), `id` what `Ref` returns. `note` holds other facts: a bucket's
    contents, the resource that it is a part of, that its creator is gone.
    """

    service: str
    type: str
    id: str
    arn: str
    owner: str
    note: str


def collect(account: Account) -> list[InventoryItem]:
    """Return every resource of the account but what it brings itself, sorted by service, type and id."""
    for service in (TrackingServers(account), Workspaces(account)):
        # Otherwise only a call to the service does it.
        service.forget_deleted()
    everything = (*found_in_account(), *_of_eks(account), *_stacks(account))
    found = [one for one in everything if one.arn not in account.provided]
    owners = _Owners.of(account, found)
    items = [
        InventoryItem(_service(one), one.type, one.id, one.arn, owners.of_resource(one), owners.note(one))
        for one in found
    ]
    return sorted(items, key=lambda item: (item.service, item.type, item.id))


@dataclass
class _Owners:
    """The creators of resources: by type and id for stacks, by id alone for custom resources and services."""

    by_resource: dict[tuple[str, str], str] = field(default_factory=dict)
    by_custom_resource: dict[str, str] = field(default_factory=dict)
    by_service: dict[str, str] = field(default_factory=dict)
    by_arn: Mapping[str, InventoryResource] = field(default_factory=dict)
    existing: frozenset[str] = frozenset()

    @classmethod
    def of(cls, account: Account, found: list[InventoryResource]) -> "_Owners":
        owners = cls(by_arn={one.arn: one for one in found}, existing=frozenset(account.existing))
        for stack, resource in account.stacks.owners():
            name = _stack_owner(stack.name)
            if resource.type.startswith(_CUSTOM):
                owners.by_custom_resource[resource.physical_id] = name
            else:
                owners.by_resource[resource.type, resource.physical_id] = name
        for made in account.background.all():
            owners.by_service[made.identifier] = made.maker_arn
        return owners

    def of_resource(self, one: InventoryResource) -> str:
        if owner := self._stated(one):
            return owner
        if maker := self._maker(one):
            return f"background:{maker}"
        if one.note == PENDING_DELETION:
            return KEPT_BY_KMS
        if one.part_of in self.by_arn:
            return self.of_resource(self.by_arn[one.part_of])
        by_custom_resource = self.by_custom_resource if one.type in _MADE_BY_CUSTOM_RESOURCES else {}
        return by_custom_resource.get(one.id, NOBODY)

    def _stated(self, one: InventoryResource) -> str | None:
        if one.id in self.existing:
            return EXISTING
        if one.type == "AWS::CloudFormation::Stack":
            return _stack_owner(one.id)
        return self.by_resource.get((one.type, one.id))

    def note(self, one: InventoryResource) -> str:
        maker = self._maker(one)
        gone = maker is not None and (one.type, one.id) not in self.by_resource and maker not in self.by_arn
        notes = (
            one.note,
            f"part of {one.part_of.rsplit(':', 1)[1]}" if one.part_of else "",
            "its creator is gone" if gone else "",
        )
        return "; ".join(note for note in notes if note)

    def _maker(self, one: InventoryResource) -> str | None:
        return self.by_service.get(one.id) or self.by_service.get(one.arn)


def _stack_owner(name: str) -> str:
    return BOOTSTRAP if name.partition("-")[0] == BOOTSTRAP_STACK else name


def _service(one: InventoryResource) -> str:
    """Return the service's short name: ec2 for AWS::EC2::VPC, sqs for moto's sqs:queue."""
    return (one.type.split("::")[1] if "::" in one.type else one.type.split(":")[0]).lower()


def _stacks(account: Account) -> Iterator[InventoryResource]:
    for stack in account.stacks.living():
        yield InventoryResource("AWS::CloudFormation::Stack", stack.name, stack.stack_id, stack.status)


def _of_eks(account: Account) -> Iterator[InventoryResource]:
    """Yield what EKS keeps in a cluster: add-ons, access entries, pod identities."""
    from embedded_account.services.eks.service import service_of  # noqa: PLC0415 - load Kubernetes only with EKS

    eks = service_of(account)
    for cluster in list(eks.records.backend.clusters.values()):
        for name in eks.addons.names(cluster.name):
            addon = eks.addons.get(cluster.name, name)
            yield InventoryResource("AWS::EKS::Addon", f"{cluster.name}|{name}", addon["addonArn"])
        for entry in eks.entries.all(cluster.name):
            # EKS and HyperPod create the access entries of their nodes' roles on their own.
            part_of = cluster.arn if entry.type in ("EC2_LINUX", "HYPERPOD_LINUX") else ""
            yield InventoryResource(
                "AWS::EKS::AccessEntry", f"{entry.principal_arn}|{cluster.name}", entry.arn, part_of=part_of
            )
        for association in eks.pod_identities.all(cluster.name):
            arn = association["associationArn"]
            yield InventoryResource("AWS::EKS::PodIdentityAssociation", arn, arn)
