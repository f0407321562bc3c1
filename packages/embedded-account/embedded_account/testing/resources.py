"""Create resources without a stack: call their models in the same way as the CloudFormation engine."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.core.common_models import CloudFormationModel

from embedded_account.context import Account
from embedded_account.errors import ResourceError, code_of, reason_of

STACK_ID = "arn:aws:cloudformation:us-west-2:111122223333:stack/network/7c6d2b0e"


class ResourceModels:
    """Creates, updates and deletes resources of the served account through their CloudFormation models."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._models = {model.cloudformation_type(): model for model in CloudFormationModel.__subclasses__()}

    def create(self, resource_type: str, properties: dict[str, Any] | None = None, name: str = "") -> Any:
        return self._models[resource_type].create_from_cloudformation_json(
            name or f"network-{resource_type.rsplit(':', 1)[-1].lower()}-1",
            {"Type": resource_type, "Properties": properties or {}},
            self._account.account_id,
            self._account.region,
            StackId=STACK_ID,
            LogicalId="Logical",
            ResourceType=resource_type,
        )

    def update(self, model: Any, properties: dict[str, Any]) -> Any:
        return type(model).update_from_cloudformation_json(
            original_resource=model,
            new_resource_name=model.physical_resource_id,
            cloudformation_json={"Properties": properties},
            account_id=self._account.account_id,
            region_name=self._account.region,
        )

    def delete(self, model: Any) -> None:
        model.remove()


class RefusedWith:
    """A context that expects a refusal with this text and AWS error code; None stands for the account's own error."""

    def __init__(self, code: str | None, text: str) -> None:
        self._code, self._text = code, text
        self._raises = pytest.raises((ClientError, ResourceError))

    def __enter__(self) -> None:
        self._caught = self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        swallowed = self._raises.__exit__(*error)
        if not swallowed:
            return False
        assert code_of(self._caught.value) == self._code
        assert self._text in reason_of(self._caught.value)
        return True
