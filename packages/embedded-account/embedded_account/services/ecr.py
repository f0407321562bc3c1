"""The CloudFormation model of ECR repositories.

It covers scanning, immutable tags and their exclusions, lifecycle policies and EmptyOnDelete.
"""

import json
from typing import Any, Self

from moto.ecr.models import ecr_backends

from embedded_account.context import Account
from embedded_account.services.keys import CREATE_GRANT, unusable
from embedded_account.services.shared.refusal import Refusal
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


@cloudformation_model("AWS::ECR::Repository", name_property="RepositoryName")
class RepositoryResource(ResourceModel):
    """A repository. It replaces moto's model, which ignores policies and EmptyOnDelete."""

    KNOWN = frozenset(
        [
            "EmptyOnDelete",
            "EncryptionConfiguration",
            "ImageScanningConfiguration",
            "ImageTagMutability",
            "ImageTagMutabilityExclusionFilters",
            "LifecyclePolicy",
            "RepositoryName",
            "RepositoryPolicyText",
            "Tags",
        ]
    )
    MUTABLE = KNOWN - {"EncryptionConfiguration", "RepositoryName"}

    def __init__(self, account: Account, name: str) -> None:
        super().__init__(account, name)
        self._empties = False

    @property
    def _backend(self) -> Any:
        return ecr_backends[self.account.account_id][self.account.region]

    @property
    def _repository(self) -> Any:
        return self._backend.repositories[self.physical_resource_id]

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        # Repository names are lower case; CloudFormation converts the names that it generates to lower case.
        resource = cls(declaration.account, properties.get("RepositoryName") or declaration.name.lower())
        encryption = properties.get("EncryptionConfiguration")
        resource._check_mutability(properties)
        resource._check_key((encryption or {}).get("KmsKey"))
        resource._backend.create_repository(
            repository_name=resource.physical_resource_id,
            registry_id=None,
            encryption_config=_camel(encryption) if encryption else None,
            image_scan_config=_camel(properties.get("ImageScanningConfiguration", {})) or None,
            image_tag_mutability=properties.get("ImageTagMutability"),
            image_tag_mutability_exclusion_filters=_exclusions(properties),
            tags=tag_list(declaration.tags()),
        )
        try:
            resource._apply(properties)
        except Exception:
            resource.remove()
            raise
        return resource

    def update(self, declaration: Declaration) -> None:
        properties, repository = declaration.properties, self._repository
        self._check_mutability(properties)
        scanning = _camel(properties.get("ImageScanningConfiguration", {}))
        repository.image_scanning_configuration = scanning or {"scanOnPush": False}
        repository.update(
            "ImageTagMutability",
            image_tag_mutability=properties.get("ImageTagMutability"),
            image_tag_mutability_exclusion_filters=_exclusions(properties),
        )
        arn = repository.arn
        self._backend.tagger.delete_all_tags_for_resource(arn)
        self._backend.tag_resource(arn, tag_list(declaration.tags()))
        self._apply(properties)

    def remove(self) -> None:
        """Delete the repository. ECR refuses to delete one that has images, unless EmptyOnDelete is set."""
        self._backend.delete_repository(self.physical_resource_id, force=self._empties)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": self._repository.arn, "RepositoryUri": self._repository.uri}

    def _check_mutability(self, properties: dict[str, Any]) -> None:
        self._backend.validate_image_tag_mutability_params_compatibility(
            properties.get("ImageTagMutability"), _exclusions(properties)
        )

    def _check_key(self, key: str | None) -> None:
        where = self.account.account_id, self.account.region
        if key and (why := unusable(*where, key, CREATE_GRANT, "kms:DescribeKey", via="ecr")):
            raise Refusal("KmsException", f"The KMS key {key} {why}")

    def _apply(self, properties: dict[str, Any]) -> None:
        repository = self._repository
        self._empties = str(properties.get("EmptyOnDelete", False)).lower() == "true"
        policy = properties.get("RepositoryPolicyText")
        repository.policy = json.dumps(policy) if isinstance(policy, dict) else policy
        lifecycle = (properties.get("LifecyclePolicy") or {}).get("LifecyclePolicyText")
        if lifecycle:
            self._backend.put_lifecycle_policy(None, self.physical_resource_id, lifecycle)
        else:
            repository.lifecycle_policy = None


def _camel(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties in the API's spelling: ScanOnPush becomes scanOnPush, KmsKey becomes kmsKey."""
    return {name[0].lower() + name[1:]: value for name, value in properties.items()}


def _exclusions(properties: dict[str, Any]) -> list[dict[str, str]] | None:
    prefix = "ImageTagMutabilityExclusionFilter"
    return [
        {"filterType": entry[f"{prefix}Type"], "filter": entry[f"{prefix}Value"]}
        for entry in properties.get(f"{prefix}s", [])
    ] or None
