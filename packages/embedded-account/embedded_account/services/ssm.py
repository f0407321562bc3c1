"""The CloudFormation model of SSM parameters.

A parameter's name can be generated, which moto refuses. An update keeps the parameter's history.
"""

from typing import Any, Self

from moto.ssm.models import ssm_backends

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)
from embedded_account.tags import tag_list


def install(account: Account) -> None:
    """Let the model act on the account."""
    serve(account)


@cloudformation_model("AWS::SSM::Parameter", name_property="Name")
class ParameterResource(ResourceModel):
    """A String or StringList parameter; CloudFormation cannot create a SecureString."""

    MUTABLE = frozenset({"Description", "Tags", "Type", "Value"})
    KNOWN = MUTABLE | {"AllowedPattern", "DataType", "Name", "Tier"}

    @property
    def _backend(self) -> Any:
        return ssm_backends[self.account.account_id][self.account.region]

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        # "CFN-" is the prefix of parameter names that CloudFormation generates.
        resource = cls(declaration.account, declaration.properties.get("Name") or f"CFN-{declaration.name}")
        resource._put(declaration, overwrite=False)
        return resource

    def update(self, declaration: Declaration) -> None:
        self._put(declaration, overwrite=True)

    def remove(self) -> None:
        self._backend.delete_parameter(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        parameter = self._backend.get_parameter(self.physical_resource_id)
        return {"Type": parameter.parameter_type, "Value": parameter.value}

    def _put(self, declaration: Declaration, *, overwrite: bool) -> None:
        properties = declaration.properties
        if properties["Type"] not in ("String", "StringList"):
            raise ResourceError(
                f"Type: {properties['Type']} is invalid: CloudFormation cannot create it. Allowed: String, StringList"
            )
        tags = tag_list(declaration.tags())
        self._backend.put_parameter(
            name=self.physical_resource_id,
            description=properties.get("Description", ""),
            value=str(properties["Value"]),
            parameter_type=properties["Type"],
            allowed_pattern=properties.get("AllowedPattern"),
            keyid=None,
            overwrite=overwrite,
            tags=None if overwrite else tags,
            data_type=properties.get("DataType", "text"),
            tier=properties.get("Tier"),
            policies=None,
        )
        if overwrite:
            gone = self.properties.get("Tags", {}).keys() - declaration.tags().keys()
            self._backend.remove_tags_from_resource("Parameter", self.physical_resource_id, sorted(gone))
            self._backend.add_tags_to_resource("Parameter", self.physical_resource_id, declaration.tags())
