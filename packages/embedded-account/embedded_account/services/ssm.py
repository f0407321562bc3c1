"""The CloudFormation model of SSM parameters.

A parameter's name can be generated, which moto refuses. An update keeps the parameter's history.
"""

import re
from collections.abc import Mapping
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

STANDARD_CHARACTERS = 4096
"""The longest value of a parameter of the standard tier."""


def check_value(parameters: Mapping[str, Any]) -> None:
    """Raise ResourceError with Systems Manager's code unless the value fits its tier and matches its pattern."""
    value, pattern = str(parameters["Value"]), parameters.get("AllowedPattern")
    if len(value) > STANDARD_CHARACTERS and parameters.get("Tier", "Standard") == "Standard":
        raise ResourceError(
            f"Standard tier parameters support a maximum parameter value of {STANDARD_CHARACTERS} characters. To "
            "create a larger parameter value, upgrade the parameter to use the advanced-parameter tier.",
            "ValidationException",
        )
    if pattern and not re.search(pattern, value):
        raise ResourceError(
            f"Parameter value, cannot be validated against allowedPattern: {pattern}",
            "ParameterPatternMismatchException",
        )


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
        check_value(properties)
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
