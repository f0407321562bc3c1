"""What the account's own CloudFormation models share: how they join moto's registry and reach the account.

moto finds its models as *direct* subclasses of `CloudFormationModel` whose module name starts with `moto.`;
a later class of the same type replaces an earlier one. `cloudformation_model` does both for a plain class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from moto.core.common_models import CloudFormationModel

from rehearsal.account.errors import ResourceFailure

if TYPE_CHECKING:
    from rehearsal.account.context import Account

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
        """The `Tags` property, whether it is a list of Key and Value or a map."""
        tags = self.properties.get("Tags") or {}
        return dict(tags) if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


class ResourceModel:
    """A resource of a stack: what CloudFormation's engine calls, in fewer words.

    `physical_resource_id` is what `Ref` returns. `KNOWN` names the properties that the model carries out: any
    other one is refused, not ignored.
    """

    TYPE: ClassVar[str]
    KNOWN: ClassVar[frozenset[str]]
    physical_resource_id: str

    def __init__(self, account: "Account", physical_resource_id: str) -> None:
        self.account = account
        self.physical_resource_id = physical_resource_id

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        """Make the resource. Raises ResourceFailure or the service's own exception."""
        raise NotImplementedError

    def update(self, declaration: Declaration) -> None:  # noqa: ARG002 - for the subclasses
        """Change the resource in place; types that CloudFormation only ever replaces leave this out."""
        raise ResourceFailure(f"{self.TYPE} cannot be updated in place")

    def remove(self) -> None:
        """Delete the resource."""
        raise NotImplementedError

    def attributes(self) -> dict[str, Any]:
        """What `Fn::GetAtt` can return."""
        return {}

    # ------------------------------------------------ moto's protocol

    @classmethod
    def has_cfn_attr(cls, _attribute: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute: str) -> Any:
        found = self.attributes()
        if attribute not in found:
            raise ResourceFailure(f"{self.TYPE} has no attribute {attribute}")
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
        return cls.create(
            Declaration(
                _accounts[account_id, region_name],
                resource_name,
                properties,
                stack_id=where.get("StackId", ""),
                logical_id=where.get("LogicalId", ""),
            )
        )

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
        original_resource.update(Declaration(_accounts[account_id, region_name], new_resource_name, properties))
        return original_resource

    def delete(self, _account_id: str, _region_name: str) -> None:
        self.remove()

    @classmethod
    def _refuse_unknown(cls, properties: dict[str, Any]) -> None:
        if unknown := set(properties) - cls.KNOWN:
            names = ", ".join(sorted(unknown))
            raise ResourceFailure(f"{cls.TYPE}: the embedded account does not implement {names}")


Model = TypeVar("Model", bound=ResourceModel)


def cloudformation_model(type_name: str, *, name_property: str = "") -> Callable[[type[Model]], type[Model]]:
    """Register the decorated class as the model of `type_name`, such as AWS::Lambda::Function.

    `name_property` is the property that names the resource; without one the name is always generated.
    """

    def register(model: type[Model]) -> type[Model]:
        service = type_name.split("::")[1].lower()
        registered: type[Model] = type(CloudFormationModel)(
            model.__name__,
            (model, CloudFormationModel),
            {
                "__module__": f"moto.{service}.rehearsal",
                "__doc__": model.__doc__,
                "TYPE": type_name,
                "cloudformation_type": staticmethod(lambda: type_name),
                "cloudformation_name_type": staticmethod(lambda: name_property),
            },
        )
        return registered

    return register
