"""Amazon Managed Service for Prometheus: CloudFormation's model of workspaces. No sample arrives."""

from typing import Any

from embedded_account.context import Account
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve
from embedded_account.tags import tag_map


def install(account: Account) -> None:
    """Let the model act on this account."""
    serve(account)


@cloudformation_model("AWS::APS::Workspace")
class PrometheusWorkspace(ApiModel):
    """A workspace; `Ref` is its ARN."""

    SERVICE = "amp"
    MUTABLE = frozenset({"Alias", "Tags"})
    KNOWN = MUTABLE | {"KmsKeyArn"}

    def make(self) -> str:
        given = {"alias": "Alias", "kmsKeyArn": "KmsKeyArn"}
        request = {name: self.properties[key] for name, key in given.items() if key in self.properties}
        return str(self.api.create_workspace(**request, tags=_tags(self.properties))["arn"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        if "Alias" in changed:
            if "Alias" not in self.properties:
                self.refuse("the embedded account does not remove Alias")
            self.api.update_workspace_alias(workspaceId=self._id, alias=self.properties["Alias"])
        if "Tags" in changed:
            arn, after = self.physical_resource_id, _tags(self.properties)
            if gone := _tags(old).keys() - after.keys():
                self.api.untag_resource(resourceArn=arn, tagKeys=sorted(gone))
            if after:
                self.api.tag_resource(resourceArn=arn, tags=after)

    def unmake(self) -> None:
        self.api.delete_workspace(workspaceId=self._id)

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_workspace(workspaceId=self._id)["workspace"]
        return {"Arn": found["arn"], "WorkspaceId": self._id, "PrometheusEndpoint": found["prometheusEndpoint"]}

    @property
    def _id(self) -> str:
        return self.physical_resource_id.rpartition("/")[2]


def _tags(properties: Properties) -> dict[str, str]:
    return tag_map(properties.get("Tags", []))
