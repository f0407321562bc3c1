"""Everything that exists in the account, and whose it is.

A resource belongs to the stack that made it, to a service that made it behind one's back, to the bootstrap, or to
nobody. Nothing is there by default: the account starts without a default VPC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from embedded_account.context import Account
from embedded_account.inventory.sources import PENDING_DELETION, Found, found_in_account

NOBODY = "nobody"
EXISTING = "existing"
"""Owner of what was there before the environment (embedded_account/existing.py)."""
BOOTSTRAP = "bootstrap"
BOOTSTRAP_STACK = "CDKToolkit"
KEPT_BY_KMS = "background:kms"
"""Owner of a deleted key: nobody can delete one at once, KMS keeps it for its pending window, free of charge."""

_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
_MADE_BY_CUSTOM_RESOURCES = ("AWS::SageMaker::Cluster", "AWS::IAM::OIDCProvider")
"""Types that custom resources make, with the resource's name or ARN as their physical id."""


@dataclass(frozen=True)
class Item:
    """One resource.

    `owner` is a stack's name, "background:" and the ARN of the service's resource that made it ("background:kms"
    for a key that waits for its deletion), "bootstrap", "existing" or "nobody". `type` is CloudFormation's (moto's for
    services that the project does not use), `id` what `Ref` returns; `note` says what is worth knowing: what lies
    in a bucket, of what a resource is a part, that its maker is gone.
    """

    service: str
    type: str
    id: str
    arn: str
    owner: str
    note: str


def collect(account: Account) -> list[Item]:
    """Return every resource of the account, sorted by service, type and id."""
    found = [*found_in_account(), *_of_eks(account), *_stacks(account)]
    owners = _Owners.of(account, found)
    items = [Item(_service(one), one.type, one.id, one.arn, owners.of_resource(one), owners.note(one)) for one in found]
    return sorted(items, key=lambda item: (item.service, item.type, item.id))


@dataclass
class _Owners:
    """Who made what: by type and id from stacks, by id alone from custom resources and services."""

    by_resource: dict[tuple[str, str], str] = field(default_factory=dict)
    by_custom_resource: dict[str, str] = field(default_factory=dict)
    by_service: dict[str, str] = field(default_factory=dict)
    by_arn: Mapping[str, Found] = field(default_factory=dict)
    existing: frozenset[str] = frozenset()

    @classmethod
    def of(cls, account: Account, found: list[Found]) -> "_Owners":
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

    def of_resource(self, one: Found) -> str:
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

    def _stated(self, one: Found) -> str | None:
        if one.id in self.existing:
            return EXISTING
        if one.type == "AWS::CloudFormation::Stack":
            return _stack_owner(one.id)
        return self.by_resource.get((one.type, one.id))

    def note(self, one: Found) -> str:
        maker = self._maker(one)
        gone = maker is not None and (one.type, one.id) not in self.by_resource and maker not in self.by_arn
        notes = (
            one.note,
            f"part of {one.part_of.rsplit(':', 1)[1]}" if one.part_of else "",
            "its maker is gone" if gone else "",
        )
        return "; ".join(note for note in notes if note)

    def _maker(self, one: Found) -> str | None:
        return self.by_service.get(one.id) or self.by_service.get(one.arn)


def _stack_owner(name: str) -> str:
    return BOOTSTRAP if name == BOOTSTRAP_STACK else name


def _service(one: Found) -> str:
    """The service's short name: ec2 of AWS::EC2::VPC, sqs of moto's sqs:queue."""
    return (one.type.split("::")[1] if "::" in one.type else one.type.split(":")[0]).lower()


def _stacks(account: Account) -> Iterator[Found]:
    for stack in account.stacks.living():
        yield Found("AWS::CloudFormation::Stack", stack.name, stack.stack_id, stack.status)


def _of_eks(account: Account) -> Iterator[Found]:
    """What EKS keeps in a cluster: add-ons, access entries, pod identities."""
    from embedded_account.services.eks.service import service_of  # noqa: PLC0415 - Kubernetes only where EKS is

    eks = service_of(account)
    for cluster in list(eks.records.backend.clusters.values()):
        for name in eks.addons.names(cluster.name):
            addon = eks.addons.get(cluster.name, name)
            yield Found("AWS::EKS::Addon", f"{cluster.name}|{name}", addon["addonArn"])
        for entry in eks.entries.all(cluster.name):
            # EKS and HyperPod make the entries of their nodes' roles themselves.
            part_of = cluster.arn if entry.type in ("EC2_LINUX", "HYPERPOD_LINUX") else ""
            yield Found("AWS::EKS::AccessEntry", f"{entry.principal_arn}|{cluster.name}", entry.arn, part_of=part_of)
        for association in eks.pod_identities.all(cluster.name):
            arn = association["associationArn"]
            yield Found("AWS::EKS::PodIdentityAssociation", arn, arn)
