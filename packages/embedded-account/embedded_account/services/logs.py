"""The CloudFormation model of log groups, and FilterLogEvents by a prefix of streams.

A stack update changes the retention and the KMS key of a group; moto's own model changes neither.
"""

import json
from typing import Any, Final, Self

from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import logs_backends
from moto.logs.responses import LogsResponse
from moto.utilities.utils import get_partition

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.keys import unusable
from embedded_account.services.shared.refusal import Refusal
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)

RETENTION_DAYS = frozenset(
    (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
)


_filter_log_events: Final = LogsResponse.filter_log_events


def install(account: Account) -> None:
    """Let the model act on the account, and let FilterLogEvents take a prefix of streams, which moto ignores."""
    LogsResponse.filter_log_events = _by_prefix
    serve(account)


def _by_prefix(response: Any) -> str:
    prefix = response._get_param("logStreamNamePrefix")
    if prefix is None:
        return str(_filter_log_events(response))
    if response._get_param("logStreamNames"):
        raise InvalidParameterException("logStreamNamePrefix and logStreamNames cannot both be specified.")
    group = response.logs_backend.groups.get(name := response._get_param("logGroupName"))
    if group is None:
        raise ResourceNotFoundException
    streams = [stream for stream in group.streams if stream.startswith(prefix)]
    if not streams:  # moto would take an empty list as every stream
        return json.dumps({"events": [], "searchedLogStreams": []})
    keys = ("startTime", "endTime", "limit", "nextToken", "filterPattern")
    options = (response._get_param(key) for key in keys)
    events, token, searched = group.filter_log_events(name, streams, *options, interleaved=True)
    return json.dumps({"events": events, "nextToken": token, "searchedLogStreams": searched})


@cloudformation_model("AWS::Logs::LogGroup", name_property="LogGroupName")
class LogGroupResource(ResourceModel):
    """A log group. As on AWS, creation fails if a service has already created a group of that name."""

    MUTABLE = frozenset({"KmsKeyId", "RetentionInDays", "Tags"})
    KNOWN = MUTABLE | {"LogGroupName"}

    @property
    def _backend(self) -> Any:
        return logs_backends[self.account.account_id][self.account.region]

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        properties = declaration.properties
        resource = cls(declaration.account, properties.get("LogGroupName") or declaration.name)
        if resource.physical_resource_id in resource._backend.groups:
            raise ResourceError(
                f"The specified log group already exists: {resource.physical_resource_id} "
                f"(ResourceAlreadyExistsException)"
            )
        retention = _retention(properties)
        resource._check_key(properties.get("KmsKeyId"))
        resource._backend.create_log_group(
            resource.physical_resource_id, declaration.tags(), kmsKeyId=properties.get("KmsKeyId")
        )
        resource._backend.groups[resource.physical_resource_id].retention_in_days = retention
        return resource

    def update(self, declaration: Declaration) -> None:
        group = self._backend.groups[self.physical_resource_id]
        self._check_key(declaration.properties.get("KmsKeyId"))
        group.retention_in_days = _retention(declaration.properties)
        group.kms_key_id = declaration.properties.get("KmsKeyId")
        before = self._backend.list_tags_log_group(self.physical_resource_id)
        self._backend.untag_log_group(self.physical_resource_id, list(before))
        self._backend.tag_log_group(self.physical_resource_id, declaration.tags())

    def _check_key(self, key: str | None) -> None:
        """Raise CloudWatch Logs' error unless the key can be used, and its policy admits the service."""
        account_id, region = self.account.account_id, self.account.region
        arn = f"arn:{get_partition(region)}:logs:{region}:{account_id}:log-group:{self.physical_resource_id}"
        context, service = {"kms:EncryptionContext:aws:logs:arn": arn}, f"logs.{region}.amazonaws.com"
        actions = ("kms:GenerateDataKey", "kms:Decrypt")
        if key and (why := unusable(account_id, region, key, *actions, principal=service, context=context)):
            text = "The specified KMS key does not exist or is not allowed to be used with LogGroup"
            raise Refusal("AccessDeniedException", f"{text} '{self.physical_resource_id}' (the key {key} {why})")

    def remove(self) -> None:
        # moto would give them to the next group of this name.
        self._backend.untag_log_group(
            self.physical_resource_id, list(self._backend.list_tags_log_group(self.physical_resource_id))
        )
        self._backend.delete_log_group(self.physical_resource_id)

    def live(self) -> dict[str, Any] | None:
        group = self._backend.groups.get(self.physical_resource_id)
        return group and {"RetentionInDays": group.retention_in_days, "KmsKeyId": group.kms_key_id}

    def attributes(self) -> dict[str, Any]:
        # The attribute ends in ":*", the form that policies and flow logs accept.
        return {"Arn": f"{self._backend.groups[self.physical_resource_id].arn}:*"}


def _retention(properties: dict[str, Any]) -> int | None:
    days = properties.get("RetentionInDays")
    if days is None:
        return None
    if int(days) not in RETENTION_DAYS:
        raise ResourceError(f"RetentionInDays: {days} is invalid. Allowed: {sorted(RETENTION_DAYS)}")
    return int(days)
