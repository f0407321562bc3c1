"""Look up what templates refer to outside themselves: zones, SSM parameters, secrets, exports."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.ssm.models import ssm_backends

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.stack import StackResource
from embedded_account.cloudformation.store import Store
from embedded_account.cloudformation.templates.intrinsics import NOT_YET_KNOWN
from embedded_account.cloudformation.templates.resource_types import ResourceTypes, resource_types
from embedded_account.errors import ResourceError

if TYPE_CHECKING:
    from embedded_account.context import Account


class AccountLookups:
    """What is the same for every template: resource types, zones, SSM parameters, secrets, exports of other stacks."""

    def __init__(self, account: "Account", store: Store) -> None:
        self._account = account
        self._store = store

    @property
    def resource_types(self) -> ResourceTypes:
        """What CloudFormation knows of each resource type."""
        return resource_types(self._account.node_modules)

    def ssm_parameter(self, name: str, version: str | None = None) -> str | None:
        """Return the value of an SSM parameter, or None."""
        backend = ssm_backends[self._account.account_id][self._account.region]
        found = backend.get_parameter(f"{name}:{version}" if version else name)
        return str(found.value) if found else None

    def availability_zones(self, region: str) -> list[str]:
        """Return the names of a region's zones."""
        zones = ec2_backends[self._account.account_id][region].describe_availability_zones()
        return [zone.name for zone in zones]

    def imported(self, export_name: str) -> str:
        """Return the value of an export. Raises RefusedCallError if no stack exports it."""
        return self._store.imported(export_name)

    def dynamic(self, reference: str) -> str:
        """Return the value of `{{resolve:ssm:name:version}}` or `{{resolve:secretsmanager:id:SecretString:key}}`."""
        service, _, rest = reference.strip("{}").removeprefix("resolve:").partition(":")
        value = None
        if service in {"ssm", "ssm-secure"}:
            name, _, version = rest.partition(":")
            value = self.ssm_parameter(name, version or None)
        elif service == "secretsmanager":
            value = self._secret(rest)
        if value is None:
            raise invalid(f"Dynamic reference {reference} cannot be resolved")
        return value

    def _secret(self, rest: str) -> str | None:
        backend = secretsmanager_backends[self._account.account_id][self._account.region]
        identifier, _, selection = rest.partition(":SecretString")
        text = backend.get_secret_value(identifier, "", "")["SecretString"]
        key = selection.strip(":").split(":")[0]
        return str(json.loads(text)[key]) if key else str(text)


class StackLookups:
    """The lookups of one stack: its own resources and the account. Records which exports were imported."""

    def __init__(self, lookups: AccountLookups, resources: Mapping[str, StackResource]) -> None:
        self._lookups = lookups
        self._resources = resources
        self.imports: set[str] = set()

    def ref(self, logical_id: str) -> Any:
        resource = self._existing(logical_id)
        return resource.physical_id if resource else NOT_YET_KNOWN

    def attribute(self, logical_id: str, name: str) -> Any:
        resource = self._existing(logical_id)
        return resource.handle.attribute(name) if resource and resource.handle else NOT_YET_KNOWN

    def imported(self, export_name: str) -> str:
        self.imports.add(export_name)
        return self._lookups.imported(export_name)

    def availability_zones(self, region: str) -> list[str]:
        return self._lookups.availability_zones(region)

    def dynamic(self, reference: str) -> str:
        return self._lookups.dynamic(reference)

    def _existing(self, logical_id: str) -> StackResource | None:
        """Return an existing resource, or None if it cannot be known yet."""
        resource = self._resources.get(logical_id)
        if resource is None or resource.handle is None:
            raise ResourceError(
                f"Unresolved resource dependencies [{logical_id}] in the Resources block of the template"
            )
        return resource


class Foresight(StackLookups):
    """Values known before the deployment.

    Unknown are resources that will be created or replaced, and what functions will return.
    """

    def __init__(self, lookups: AccountLookups, resources: Mapping[str, StackResource], unknown: set[str]) -> None:
        super().__init__(lookups, resources)
        self._unknown = unknown
        self.attributes_unknown: set[str] = set()

    def attribute(self, logical_id: str, name: str) -> Any:
        if logical_id in self.attributes_unknown:
            return NOT_YET_KNOWN
        return super().attribute(logical_id, name)

    def _existing(self, logical_id: str) -> StackResource | None:
        resource = self._resources.get(logical_id)
        if resource is None or resource.handle is None or logical_id in self._unknown:
            return None
        return resource
