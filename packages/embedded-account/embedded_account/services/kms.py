"""KMS: CloudFormation's models of keys and aliases."""

import json
from typing import Any

from embedded_account.context import Account
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve

DEFAULT_PENDING_WINDOW_DAYS = 30


def install(account: Account) -> None:
    """Let the models act on this account."""
    serve(account)


@cloudformation_model("AWS::KMS::Key")
class Key(ApiModel):
    """A customer managed key. Deleting it schedules the deletion: the key is unusable during the pending window."""

    SERVICE = "kms"
    MUTABLE = frozenset({"Description", "Enabled", "EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "Tags"})
    KNOWN = MUTABLE | {"KeySpec", "KeyUsage"}

    def make(self) -> str:
        policy = {"Policy": json.dumps(self.properties["KeyPolicy"])} if "KeyPolicy" in self.properties else {}
        tags = {"Tags": _kms_tags(self.properties)} if self.properties.get("Tags") else {}
        given = self.only("Description", "KeySpec", "KeyUsage")
        return str(self.api.create_key(**given, **policy, **tags)["KeyMetadata"]["KeyId"])

    def settle(self) -> None:
        self._switch(frozenset({"Enabled", "EnableKeyRotation"}) & self.properties.keys())

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        key = self.physical_resource_id
        if "KeyPolicy" in changed:
            if "KeyPolicy" not in self.properties:
                self.refuse("the embedded account does not reset KeyPolicy to its default")
            policy = json.dumps(self.properties["KeyPolicy"])
            self.api.put_key_policy(KeyId=key, PolicyName="default", Policy=policy)
        if "Description" in changed:
            self.api.update_key_description(KeyId=key, Description=self.properties.get("Description", ""))
        if "Tags" in changed:
            kept = {tag["TagKey"] for tag in _kms_tags(self.properties)}
            if gone := {tag["TagKey"] for tag in _kms_tags(old)} - kept:
                self.api.untag_resource(KeyId=key, TagKeys=sorted(gone))
            if kept:
                self.api.tag_resource(KeyId=key, Tags=_kms_tags(self.properties))
        self._switch(changed)

    def unmake(self) -> None:
        days = self.properties.get("PendingWindowInDays", DEFAULT_PENDING_WINDOW_DAYS)
        self.api.schedule_key_deletion(KeyId=self.physical_resource_id, PendingWindowInDays=days)

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_key(KeyId=self.physical_resource_id)["KeyMetadata"]
        return {"KeyId": self.physical_resource_id, "Arn": found["Arn"]}

    def _switch(self, names: frozenset[str]) -> None:
        key = {"KeyId": self.physical_resource_id}
        if "Enabled" in names:
            (self.api.enable_key if self.properties.get("Enabled", True) else self.api.disable_key)(**key)
        if "EnableKeyRotation" in names:
            rotate = self.properties.get("EnableKeyRotation", False)
            (self.api.enable_key_rotation if rotate else self.api.disable_key_rotation)(**key)


def _kms_tags(properties: Properties) -> list[dict[str, str]]:
    return [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", [])]


@cloudformation_model("AWS::KMS::Alias")
class Alias(ApiModel):
    """An alias of a key."""

    SERVICE = "kms"
    KNOWN = frozenset({"AliasName", "TargetKeyId"})
    MUTABLE = frozenset({"TargetKeyId"})

    def make(self) -> str:
        self.api.create_alias(**self.properties)
        return str(self.properties["AliasName"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old, changed
        self.api.update_alias(**self.properties)

    def unmake(self) -> None:
        self.api.delete_alias(AliasName=self.physical_resource_id)
