"""What the models of EC2 share: the client and the tags."""

from collections.abc import Mapping
from typing import Any, ClassVar

from moto.ec2.models import ec2_backends

from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import Declaration


class Ec2Model(ApiModel):
    """A resource of EC2, tagged with its own tags and with CloudFormation's."""

    SERVICE: ClassVar[str] = "ec2"
    MUTABLE: ClassVar[frozenset[str]] = frozenset({"Tags"})

    def settle(self) -> None:
        """Tag the resource; CloudFormation may set tags that begin with `aws:`, callers of the API may not."""
        tags = {**self.declaration.tags(), **stack_tags(self.declaration)}
        ec2 = ec2_backends[self.account.account_id][self.account.region]
        ec2.create_tags([self.tagged_id], tags)

    @property
    def tagged_id(self) -> str:
        """The id that carries the tags."""
        return self.physical_resource_id

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        """Change the tags; subclasses with more to change call this as well."""
        if "Tags" not in changed:
            return
        before, after = _tag_map(old), _tag_map(self.properties)
        if gone := before.keys() - after.keys():
            self.api.delete_tags(Resources=[self.tagged_id], Tags=[{"Key": key} for key in sorted(gone)])
        if after:
            self.api.create_tags(
                Resources=[self.tagged_id], Tags=[{"Key": key, "Value": value} for key, value in after.items()]
            )


def stack_tags(declaration: Declaration) -> dict[str, str]:
    """The tags by which CloudFormation marks what it made."""
    if not declaration.stack_id:
        return {}
    return {
        "aws:cloudformation:stack-name": declaration.stack_id.split("/")[1],
        "aws:cloudformation:stack-id": declaration.stack_id,
        "aws:cloudformation:logical-id": declaration.logical_id,
    }


def _tag_map(properties: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}
