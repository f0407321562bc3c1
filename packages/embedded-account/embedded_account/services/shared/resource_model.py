"""The base class of the account's own CloudFormation models, and their registration.

A model is strict: it fails on an unknown property and on a change that it does not implement, and names the property.
Otherwise a stack would report UPDATE_COMPLETE for an update that did nothing.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from moto.core.common_models import CloudFormationModel

from embedded_account.errors import ResourceError
from embedded_account.tags import tag_map

if TYPE_CHECKING:
    from embedded_account.context import Account

_accounts: dict[tuple[str, str], "Account"] = {}


def serve(account: "Account") -> None:
    """Let the models act on `account`; every `install` that owns models calls this."""
    _accounts[account.account_id, account.region] = account


@dataclass(frozen=True)
class Declaration:
    """One resource as the template declares it, with the name that CloudFormation would generate for it."""

    account: "Account"
    name: str
    properties: dict[str, Any]
    stack_id: str = ""
    logical_id: str = ""

    def tags(self) -> dict[str, str]:
        """Return the `Tags` property as a map; the template can give a list of Key and Value or a map."""
        tags = self.properties.get("Tags") or {}
        return dict(tags) if isinstance(tags, dict) else tag_map(tags)


class ResourceModel:
    """A resource of a stack, behind a smaller interface than the one that moto's CloudFormation calls.

    `physical_resource_id` is the value that `Ref` returns. `KNOWN` names the properties that the model implements; any
    other property is refused, not ignored. `MUTABLE` names what `update` changes in the service: a whole property, or
    one key of it by its path (`LaunchTemplate.Version`). Any other change is refused. `properties` are the resource's
    current properties.
    """

    TYPE: ClassVar[str]
    NAME: ClassVar[str]
    """The property that names the resource; "" if the name is always generated."""
    KNOWN: ClassVar[frozenset[str]]
    MUTABLE: ClassVar[frozenset[str]]
    physical_resource_id: str
    properties: dict[str, Any]

    def __init__(self, account: "Account", physical_resource_id: str) -> None:
        self.account = account
        self.physical_resource_id = physical_resource_id

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        """Create the resource. Raises ResourceError or the service's own exception."""
        raise NotImplementedError

    def update(self, declaration: Declaration) -> None:
        """Change the resource to the declaration's properties; a model without MUTABLE does not override this."""

    def remove(self) -> None:
        """Delete the resource."""
        raise NotImplementedError

    def attributes(self) -> dict[str, Any]:
        """Return the attributes for `Fn::GetAtt`, by name."""
        return {}

    def live(self) -> dict[str, Any] | None:
        """Return properties as the service has them now, in the template's form; None if the resource is gone.

        Drift detection compares them. It skips a model that does not override this.
        """
        raise NotImplementedError

    # ------------------------------------------------ moto's protocol

    @classmethod
    def has_cfn_attr(cls, _attribute: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute: str) -> Any:
        found = self.attributes()
        if attribute not in found:
            raise ResourceError(f"{self.TYPE} has no attribute {attribute}")
        return found[attribute]

    def is_created(self) -> bool:
        return True

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **where: Any,
    ) -> Self:
        properties = cloudformation_json.get("Properties") or {}
        cls._refuse_unknown(properties)
        resource = cls.create(
            Declaration(
                _accounts[account_id, region_name],
                resource_name,
                properties,
                stack_id=where.get("StackId", ""),
                logical_id=where.get("LogicalId", ""),
            )
        )
        resource.properties = properties
        return resource

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Self,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> Self:
        properties = cloudformation_json.get("Properties") or {}
        cls._refuse_unknown(properties)
        if fixed := sorted(_changes_beyond(cls.MUTABLE, original_resource.properties, properties)):
            raise _not_updated(cls.TYPE, fixed)
        original_resource.update(Declaration(_accounts[account_id, region_name], new_resource_name, properties))
        original_resource.properties = properties
        return original_resource

    def refuse_removal(self, declaration: Declaration, *names: str) -> None:
        """Raise ResourceError if the declaration removes one of these properties, whose default is unknown here."""
        if gone := [name for name in names if name in self.properties and name not in declaration.properties]:
            raise _not_updated(self.TYPE, [f"{name} (removed)" for name in gone])

    @classmethod
    def _refuse_unknown(cls, properties: dict[str, Any]) -> None:
        if unknown := set(properties) - cls.KNOWN:
            names = ", ".join(sorted(unknown))
            raise ResourceError(f"{cls.TYPE}: the embedded account does not implement {names}")


def _not_updated(resource_type: str, names: list[str]) -> ResourceError:
    return ResourceError(
        f"the embedded account cannot update {', '.join(names)} of {resource_type}: its model would report the change "
        "without making it"
    )


def _changes_beyond(mutable: Collection[str], old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each difference that `mutable` does not cover."""
    if old == new or path in mutable:
        return
    deeper = not path or any(each.startswith(f"{path}.") for each in mutable)
    if deeper and isinstance(old, dict | None) and isinstance(new, dict | None):
        before, after = old or {}, new or {}
        for name in before.keys() | after.keys():
            yield from _changes_beyond(mutable, before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
    else:
        yield path


Model = TypeVar("Model", bound=ResourceModel)


REGISTERED: Final[dict[str, Any]] = {}
"""The models whose modules have been imported, by resource type."""


def cloudformation_model(type_name: str, *, name_property: str = "") -> Callable[[type[Model]], type[Model]]:
    """Register the decorated class as the model of `type_name`, such as AWS::Lambda::Function.

    `name_property` is the property that names the resource; without this property the name is always generated.
    """

    def register(model: type[Model]) -> type[Model]:
        if unknown := {path.split(".")[0] for path in model.MUTABLE} - model.KNOWN:
            raise TypeError(f"{type_name}: {sorted(unknown)} is in MUTABLE but not in KNOWN")
        service = type_name.split("::")[1].lower()
        registered: type[Model] = type(CloudFormationModel)(
            model.__name__,
            (model, CloudFormationModel),
            {
                "__module__": f"moto.{service}.rehearsal",
                "__doc__": model.__doc__,
                "TYPE": type_name,
                "NAME": name_property,
                "cloudformation_type": staticmethod(lambda: type_name),
                "cloudformation_name_type": staticmethod(lambda: name_property),
            },
        )
        REGISTERED[type_name] = registered
        return registered

    return register
