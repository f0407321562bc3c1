"""The base class of EC2's models: their client and their tags."""

from collections.abc import Mapping
from typing import Any, ClassVar

from moto.ec2.models import ec2_backends

from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import Declaration
from embedded_account.tags import tag_list, tag_map


class Ec2Model(ApiModel):
    """An EC2 resource, with the template's tags and CloudFormation's tags."""

    SERVICE: ClassVar[str] = "ec2"
    MUTABLE: ClassVar[frozenset[str]] = frozenset({"Tags"})

    def settle(self) -> None:
        """Tag the resource.

        The tags are set in moto's backend, not through the API: only AWS services can set tags that begin with `aws:`.
        """
        tags = {**self.declaration.tags(), **stack_tags(self.declaration)}
        ec2 = ec2_backends[self.account.account_id][self.account.region]
        ec2.create_tags([self.tagged_id], tags)

    @property
    def tagged_id(self) -> str:
        """The id of the resource that has the tags."""
        return self.physical_resource_id

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        """Change the tags; a subclass that changes more calls this method too."""
        if "Tags" not in changed:
            return
        before, after = _tag_map(old), _tag_map(self.properties)
        if gone := before.keys() - after.keys():
            self.api.delete_tags(Resources=[self.tagged_id], Tags=[{"Key": key} for key in sorted(gone)])
        if after:
            self.api.create_tags(Resources=[self.tagged_id], Tags=tag_list(after))


def stack_tags(declaration: Declaration) -> dict[str, str]:
    """Return the tags that CloudFormation sets on every resource that it creates."""
    if not declaration.stack_id:
        return {}
    return {
        "aws:cloudformation:stack-name": declaration.stack_id.split("/")[1],
        "aws:cloudformation:stack-id": declaration.stack_id,
        "aws:cloudformation:logical-id": declaration.logical_id,
    }


def _tag_map(properties: Mapping[str, Any]) -> dict[str, str]:
    return tag_map(properties.get("Tags", []))
