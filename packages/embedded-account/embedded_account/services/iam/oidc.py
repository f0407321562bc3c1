"""The CloudFormation model of AWS::IAM::OIDCProvider, which moto lacks."""

from typing import Any, Self

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.iam.access import backend_of
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


@cloudformation_model("AWS::IAM::OIDCProvider")
class OidcProviderResource(ResourceModel):
    """An identity provider that roles can trust, such as the issuer of a cluster's service account tokens."""

    MUTABLE = frozenset({"ClientIdList", "Tags", "ThumbprintList"})
    KNOWN = MUTABLE | {"Url"}

    @property
    def _provider(self) -> Any:
        return backend_of(self.account).get_open_id_connect_provider(self.physical_resource_id)

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties, iam = declaration.properties, backend_of(declaration.account)
        url = properties["Url"]
        if not url.startswith("https://"):
            raise ResourceError(f"Invalid Open ID Connect Provider URL: {url} (InvalidInput)")
        if any(f"https://{provider.url}" == url for provider in iam.open_id_providers.values()):
            raise ResourceError(f"Provider with url {url} already exists. (EntityAlreadyExists)")
        provider = iam.create_open_id_connect_provider(
            url,
            properties.get("ThumbprintList", []),
            properties.get("ClientIdList", []),
            tag_list(declaration.tags()),
        )
        return cls(declaration.account, provider.arn)

    def update(self, declaration: Declaration) -> None:
        provider = self._provider
        provider.client_id_list = declaration.properties.get("ClientIdList", [])
        provider.thumbprint_list = declaration.properties.get("ThumbprintList", [])
        iam, arn, tags = backend_of(self.account), self.physical_resource_id, declaration.tags()
        iam.untag_open_id_connect_provider(arn, [tag["Key"] for tag in provider.tags.values()])
        iam.tag_open_id_connect_provider(arn, tag_list(tags))

    def remove(self) -> None:
        backend_of(self.account).delete_open_id_connect_provider(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self.physical_resource_id}
