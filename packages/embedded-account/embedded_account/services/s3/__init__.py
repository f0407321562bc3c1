"""S3: CloudFormation's models of buckets and bucket policies."""

import json
from collections.abc import Callable
from typing import Any

from embedded_account.context import Account
from embedded_account.services.s3.keys import refuse_unusable_keys
from embedded_account.services.s3.public_access import block_public_access
from embedded_account.services.s3.transport import take_http_for_https
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve


def install(account: Account) -> None:
    """Let the models act on this account."""
    serve(account)
    take_http_for_https()
    block_public_access()
    refuse_unusable_keys()


@cloudformation_model("AWS::S3::Bucket", name_property="BucketName")
class Bucket(ApiModel):
    """A bucket. Deleting a bucket that holds objects, versions or delete markers fails with BucketNotEmpty."""

    SERVICE = "s3"
    MUTABLE = frozenset(
        {
            "BucketEncryption",
            "LifecycleConfiguration",
            "LoggingConfiguration.DestinationBucketName",
            "LoggingConfiguration.LogFilePrefix",
            "NotificationConfiguration",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
        }
    )
    KNOWN = frozenset({*(path.split(".")[0] for path in MUTABLE), "AccessControl", "BucketName"})

    def make(self) -> str:
        name = self.declaration.name
        elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": self.account.region}}
        self.api.create_bucket(Bucket=name, **({} if self.account.region == "us-east-1" else elsewhere))
        return name

    def settle(self) -> None:
        self._configure(frozenset(self.properties) - {"BucketName"})

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old
        self._configure(changed)

    def unmake(self) -> None:
        self.api.delete_bucket(Bucket=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        name, region = self.physical_resource_id, self.account.region
        return {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "DualStackDomainName": f"{name}.s3.dualstack.{region}.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
            "WebsiteURL": f"http://{name}.s3-website-{region}.amazonaws.com",
        }

    def _configure(self, names: frozenset[str]) -> None:
        setters: dict[str, Callable[[Any], None]] = {
            "AccessControl": self._set_acl,
            "BucketEncryption": self._set_encryption,
            "LifecycleConfiguration": self._set_lifecycle,
            "LoggingConfiguration": self._set_logging,
            "NotificationConfiguration": self._set_notification,
            "OwnershipControls": self._set_ownership,
            "PublicAccessBlockConfiguration": self._set_public_access,
            "Tags": self._set_tags,
            "VersioningConfiguration": self._set_versioning,
        }
        for name in sorted(names):
            setters[name](self.properties.get(name))

    def _set_acl(self, acl: str | None) -> None:
        if acl not in (None, "Private"):
            self.refuse(
                f"AccessControl: {acl} is invalid: the embedded account has private buckets only. Allowed: Private"
            )

    def _set_encryption(self, encryption: Properties | None) -> None:
        if encryption is None:
            self.api.delete_bucket_encryption(Bucket=self.physical_resource_id)
            return
        rules = [self._encryption_rule(rule) for rule in encryption["ServerSideEncryptionConfiguration"]]
        self.api.put_bucket_encryption(
            Bucket=self.physical_resource_id, ServerSideEncryptionConfiguration={"Rules": rules}
        )

    def _encryption_rule(self, rule: Properties) -> dict[str, Any]:
        if unknown := rule.keys() - {"BucketKeyEnabled", "ServerSideEncryptionByDefault"}:
            self.refuse(f"the embedded account does not implement {', '.join(sorted(unknown))} of an encryption rule")
        result: dict[str, Any] = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        if "BucketKeyEnabled" in rule:
            result["BucketKeyEnabled"] = rule["BucketKeyEnabled"]
        return result

    def _set_lifecycle(self, lifecycle: Properties | None) -> None:
        if lifecycle is None:
            self.api.delete_bucket_lifecycle(Bucket=self.physical_resource_id)
            return
        rules = [self._lifecycle_rule(rule) for rule in lifecycle["Rules"]]
        self.api.put_bucket_lifecycle_configuration(
            Bucket=self.physical_resource_id, LifecycleConfiguration={"Rules": rules}
        )

    def _lifecycle_rule(self, rule: Properties) -> dict[str, Any]:
        same = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")
        result: dict[str, Any] = {name: rule[name] for name in same if name in rule}
        if "Id" in rule:
            result["ID"] = rule["Id"]
        result["Filter"] = {"Prefix": rule.get("Prefix", "")}
        expiration = {"ExpirationInDays": "Days", "ExpiredObjectDeleteMarker": "ExpiredObjectDeleteMarker"}
        if given := {api: rule[name] for name, api in expiration.items() if name in rule}:
            result["Expiration"] = given
        if "Transitions" in rule:
            result["Transitions"] = [
                {"Days": each["TransitionInDays"], "StorageClass": each["StorageClass"]} for each in rule["Transitions"]
            ]
        known = {*same, *expiration, "Id", "Prefix", "Transitions"}
        if unknown := rule.keys() - known:
            self.refuse(f"the embedded account does not implement {', '.join(sorted(unknown))} of a lifecycle rule")
        return result

    def _set_logging(self, logging: Properties | None) -> None:
        status: dict[str, Any] = {}
        if logging is not None:
            status["LoggingEnabled"] = {
                "TargetBucket": logging.get("DestinationBucketName", self.physical_resource_id),
                "TargetPrefix": logging.get("LogFilePrefix", ""),
            }
        self.api.put_bucket_logging(Bucket=self.physical_resource_id, BucketLoggingStatus=status)

    def _set_notification(self, notification: Properties | None) -> None:
        given = notification or {}
        if unknown := given.keys() - _NOTIFICATIONS.keys() - {"EventBridgeConfiguration"}:
            self.refuse(f"the embedded account does not implement {', '.join(sorted(unknown))}")
        result: dict[str, Any] = {
            api: [_notification(each, target, arn) for each in given[name]]
            for name, (api, target, arn) in _NOTIFICATIONS.items()
            if name in given
        }
        if given.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled", "EventBridgeConfiguration" in given):
            result["EventBridgeConfiguration"] = {}
        self.api.put_bucket_notification_configuration(
            Bucket=self.physical_resource_id, NotificationConfiguration=result
        )

    def _set_ownership(self, controls: Properties | None) -> None:
        if controls is None:
            self.api.delete_bucket_ownership_controls(Bucket=self.physical_resource_id)
        else:
            self.api.put_bucket_ownership_controls(Bucket=self.physical_resource_id, OwnershipControls=controls)

    def _set_public_access(self, block: Properties | None) -> None:
        if block is None:
            self.api.delete_public_access_block(Bucket=self.physical_resource_id)
        else:
            self.api.put_public_access_block(Bucket=self.physical_resource_id, PublicAccessBlockConfiguration=block)

    def _set_tags(self, tags: list[Properties] | None) -> None:
        if tags:
            self.api.put_bucket_tagging(Bucket=self.physical_resource_id, Tagging={"TagSet": tags})
        else:
            self.api.delete_bucket_tagging(Bucket=self.physical_resource_id)

    def _set_versioning(self, versioning: Properties | None) -> None:
        self.api.put_bucket_versioning(
            Bucket=self.physical_resource_id, VersioningConfiguration=versioning or {"Status": "Suspended"}
        )


_NOTIFICATIONS = {
    "LambdaConfigurations": ("LambdaFunctionConfigurations", "Function", "LambdaFunctionArn"),
    "QueueConfigurations": ("QueueConfigurations", "Queue", "QueueArn"),
    "TopicConfigurations": ("TopicConfigurations", "Topic", "TopicArn"),
}
"""By CloudFormation's name of a list of notifications: the API's name of the list, CloudFormation's name of the
target, and the API's name of the target."""


def _notification(given: Properties, target: str, arn: str) -> dict[str, Any]:
    result: dict[str, Any] = {"Events": [given["Event"]], arn: given[target]}
    if "Filter" in given:
        result["Filter"] = {"Key": {"FilterRules": given["Filter"]["S3Key"]["Rules"]}}
    return result


@cloudformation_model("AWS::S3::BucketPolicy")
class BucketPolicy(ApiModel):
    """The policy of a bucket."""

    SERVICE = "s3"
    KNOWN = frozenset({"Bucket", "PolicyDocument"})
    MUTABLE = frozenset({"PolicyDocument"})

    def make(self) -> str:
        self._put()
        return str(self.properties["Bucket"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old, changed
        self._put()

    def unmake(self) -> None:
        self.api.delete_bucket_policy(Bucket=self.properties["Bucket"])

    def _put(self) -> None:
        document = json.dumps(self.properties["PolicyDocument"])
        self.api.put_bucket_policy(Bucket=self.properties["Bucket"], Policy=document)
