"""Find protections that a change lowers: retention, versions, encryption, logs, backups, guards."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ops.review.assembly import RETAINED
from ops.review.cloudformation.risks.expiry import earlier_deletions
from ops.review.cloudformation.sides import Key, Risk, TemplateComparison, referred
from ops.review.cloudformation.values import elements, is_off, is_on, mapping, nested, number, same, short, text
from ops.review.model import Danger

Lowered = Callable[[object, object], bool]
_AUTO_DELETE: Final = "Custom::S3AutoDeleteObjects"
_AUTO_DELETE_TAG: Final = "aws-cdk:auto-delete-objects"
PROTECT: Final = "protect"
_KEY_ID: Final = re.compile(r'"KMSMasterKeyID": ("[^"]*")')


def _off(before: object, after: object) -> bool:
    return not is_off(before) and not is_on(after)


def _on(before: object, after: object) -> bool:
    return not is_off(after) and not is_on(before)


def _removed(before: object, after: object) -> bool:
    return bool(before) and not same(before, after)


def _gone(before: object, after: object) -> bool:
    return bool(before) and not after


def _another(before: object, after: object) -> bool:
    return not same(before, after)


def _never(_: object, after: object) -> bool:
    """Return whether a function may run zero times at once."""
    return number(after, 1, unknown=0) <= 0


def _narrower(before: object, after: object) -> bool:
    """Return whether a pattern may match fewer events: each key is a condition, each element of a list a choice."""
    old, new = (nested(each) or each if isinstance(each, str) else each for each in (before, after))
    if new is None or same(old, new):
        return False
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return any(name not in old or _narrower(old[name], each) for name, each in new.items())
    return not isinstance(old, list) or not isinstance(new, list) or _fewer(old, new)


def _lower(default: float) -> Lowered:
    """Return a rule: the number may not become smaller. `default`: what a missing one means."""

    def lowered(before: object, after: object) -> bool:
        return number(after, default, unknown=-1) < number(before, default, unknown=float("inf"))

    return lowered


def _higher(default: float) -> Lowered:
    def raised(before: object, after: object) -> bool:
        return number(after, default, unknown=float("inf")) > number(before, default, unknown=-1)

    return raised


def _fewer(before: object, after: object) -> bool:
    return bool({text(each) for each in elements(before)} - {text(each) for each in elements(after)})


def _weaker_encryption(before: object, after: object) -> bool:
    """Return whether less is encrypted with the same KMS key: another key may belong to somebody else."""
    if not before or not after:
        return bool(before)
    keys = [set(_KEY_ID.findall(text(side))) for side in (before, after)]
    return ("kms" in text(before) and "kms" not in text(after)) or bool(keys[0] - keys[1])


def _switched_off(before: object, after: object) -> bool:
    """Return whether what is on by default is switched off."""
    return after is not None and not is_on(after) and (before is None or not is_off(before))


def _starts(before: object, after: object) -> bool:
    """Return whether deletions are carried over that were not."""
    return "DELETED" in text(after) and "DELETED" not in text(before)


def _another_bucket(before: object, after: object) -> bool:
    buckets = [str(each).removeprefix("s3://").partition("/")[0] for each in (before, after)]
    return buckets[0] != buckets[1]


def _narrowed(_: object, after: object) -> bool:
    """Return whether something else may be counted; without a filter everything is."""
    return after is not None


def _tells_less(before: object, after: object) -> bool:
    """Return whether a budget calls somebody no more, or later."""
    return not all(any(_calls_as_early(new, old) for new in elements(after)) for old in elements(before))


def _calls_as_early(new: object, old: object) -> bool:
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return same(new, old)
    rules = [dict(mapping(each.get("Notification"))) for each in (old, new)]
    limits = [number(each.pop("Threshold", None), 0, unknown=float("nan")) for each in rules]
    subscribers = [{text(one) for one in elements(each.get("Subscribers"))} for each in (old, new)]
    same_rule = same(*rules) and str(rules[0].get("ComparisonOperator")) == "GREATER_THAN"
    earlier = limits[1] <= limits[0] if same_rule else same(old.get("Notification"), new.get("Notification"))
    return earlier and subscribers[0] <= subscribers[1]


def _weaker_lock(before: object, after: object) -> bool:
    """Return whether new objects are locked for a shorter time, or more people may lift their lock."""
    rules = [mapping(mapping(mapping(each).get("Rule")).get("DefaultRetention")) for each in (before, after)]
    modes = [_LOCKS.get(str(each.get("Mode")), -1 if each else 0) for each in rules]
    days = [number(each.get("Days"), 0, unknown=-1) + 365 * number(each.get("Years"), 0, unknown=-1) for each in rules]
    return is_on(mapping(before).get("ObjectLockEnabled")) and (
        not is_on(mapping(after).get("ObjectLockEnabled")) or modes[1] < modes[0] or days[1] < days[0]
    )


_LOCKS: Final = {"GOVERNANCE": 1, "COMPLIANCE": 2}
_FOREVER: Final = float("inf")
_KMS_WAIT_DAYS: Final = 30
RULES: Final[Mapping[str, Mapping[str, Lowered]]] = {
    "AWS::S3::Bucket": {
        "VersioningConfiguration.Status": _off,
        "BucketEncryption": _weaker_encryption,
        "ObjectLockEnabled": _off,
        "ObjectLockConfiguration": _weaker_lock,
        # A new copy elsewhere is no lower protection, but somebody else may read it.
        "ReplicationConfiguration": _another,
        "LoggingConfiguration": _removed,
        "OwnershipControls": _removed,
    },
    "AWS::KMS::Key": {
        "EnableKeyRotation": _off,
        "PendingWindowInDays": _lower(_KMS_WAIT_DAYS),
        "BypassPolicyLockoutSafetyCheck": _on,
    },
    "AWS::EKS::Cluster": {
        "Logging.ClusterLogging.EnabledTypes": _fewer,
        "EncryptionConfig": _removed,
        "DeletionProtection": _off,
    },
    "AWS::FSx::FileSystem": {
        "LustreConfiguration.AutomaticBackupRetentionDays": _lower(0),
        "LustreConfiguration.LogConfiguration": _removed,
        "KmsKeyId": _removed,
    },
    "AWS::FSx::DataRepositoryAssociation": {
        "S3.AutoExportPolicy.Events": lambda before, after: _fewer(before, after) or _starts(before, after),
        "S3.AutoImportPolicy.Events": _starts,
        "DataRepositoryPath": _another_bucket,
    },
    "AWS::ECR::Repository": {
        "ImageTagMutability": _off,
        "ImageTagMutabilityExclusionFilters": lambda before, after: _fewer(after, before),
        "ImageScanningConfiguration.ScanOnPush": _off,
        "EmptyOnDelete": _on,
        "EncryptionConfiguration": _removed,
    },
    "AWS::Logs::LogGroup": {
        "RetentionInDays": _lower(_FOREVER),
        "KmsKeyId": _removed,
        "DataProtectionPolicy": _removed,
        "DeletionProtectionEnabled": _off,
    },
    "AWS::EC2::FlowLog": {
        "TrafficType": _off,
        **dict.fromkeys(("LogDestinationType", "ResourceId", "ResourceType"), _removed),
        "MaxAggregationInterval": _higher(600),
    },
    "AWS::SNS::Topic": {"KmsMasterKeyId": _removed},
    "AWS::SSM::Parameter": {"Type": lambda before, _: before == "SecureString"},
    "AWS::Lambda::Function": {
        "KmsKeyArn": _removed,
        "CodeSigningConfigArn": _removed,
        "VpcConfig": _gone,
        "ReservedConcurrentExecutions": _never,
    },
    "AWS::Budgets::Budget": {
        "NotificationsWithSubscribers": _tells_less,
        "Budget.BudgetLimit.Amount": _higher(0),
        **dict.fromkeys(
            ("Budget.CostFilters", "Budget.CostTypes", "Budget.FilterExpression", "Budget.TimeUnit"), _narrowed
        ),
    },
    "AWS::APS::Workspace": {
        # Amazon Managed Service for Prometheus, quotas: 150 days by default.
        "WorkspaceConfiguration.RetentionPeriodInDays": _lower(150),
        "LoggingConfiguration": _removed,
        "AlertManagerDefinition": _removed,
    },
    "AWS::APS::RuleGroupsNamespace": {"Data": _removed},
    "AWS::CloudWatch::Alarm": {
        "ActionsEnabled": _switched_off,
        "AlarmActions": _fewer,
        **dict.fromkeys(
            (
                *("Dimensions", "ExtendedStatistic", "MetricName", "Metrics", "Namespace"),
                *("Statistic", "Unit"),
            ),
            _another,
        ),
        "TreatMissingData": lambda _, after: after != "breaching",
        **dict.fromkeys(("EvaluationPeriods", "Period"), _higher(0)),
    },
    "AWS::Events::Rule": {"State": _switched_off, "EventPattern": _narrower},
    "AWS::SNS::Subscription": {"FilterPolicy": _narrower, "FilterPolicyScope": _another},
    "AWS::EC2::LaunchTemplate": {
        # A node's image may ask for tokens of itself, so that nothing written is no "optional".
        "LaunchTemplateData.MetadataOptions.HttpTokens": lambda before, after: (
            _off(before, after) or (after is not None and not is_on(after))
        ),
        "LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit": _higher(1),
        "LaunchTemplateData.BlockDeviceMappings.Ebs.Encrypted": _off,
    },
    "AWS::EC2::VPC": {"EnableDnsSupport": _off},
    "AWS::Backup::BackupPlan": {"BackupPlan": _removed},
    "AWS::Backup::BackupSelection": {"BackupSelection": _removed},
    "AWS::Backup::BackupVault": {"LockConfiguration": _removed},
    "AWS::CloudTrail::Trail": {"IsLogging": _off, "EnableLogFileValidation": _off, "IsMultiRegionTrail": _off},
    "AWS::GuardDuty::Detector": {"Enable": _off},
}


_THRESHOLDS: Final[Mapping[str, tuple[int, bool]]] = {
    "GreaterThanThreshold": (1, False),
    "GreaterThanOrEqualToThreshold": (1, True),
    "LessThanThreshold": (-1, False),
    "LessThanOrEqualToThreshold": (-1, True),
}
"""Operators of alarms: the side on which they fire, and whether at the threshold too. Others compare with a band."""


def lower_protection(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield the protections that existing resources lose."""
    lifted = protect_lifted(sides)
    confirmed = PROTECT if lifted else ""
    for each in sides.differing():
        if each.new:
            continue
        key, kind, before, after = each.key, each.kind, each.before, each.after
        yield from _retention(key, sides, confirmed)
        if same(before, after):
            continue
        for path, lowered in RULES.get(kind, {}).items():
            old, new = _at(before, path), _at(after, path)
            if not same(old, new) and lowered(old, new):
                what = f"{path} {_shown(old)} → {_shown(new)}"
                by = confirmed if path == "EmptyOnDelete" else ""
                yield Risk(key, Danger.LOWER_PROTECTION, what, "A protection is lowered.", by)
        if kind == "AWS::CloudWatch::Alarm":
            for name in _fires_later(before, after):
                what = f"{name} {short(before.get(name))} → {short(after.get(name))}"
                yield Risk(key, Danger.LOWER_PROTECTION, what, "The alarm fires later.")
        yield from earlier_deletions(key, kind, before, after)
        yield from _isolation(key, kind, before, after)
    yield from _auto_delete(sides, confirmed)


def _fires_later(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what lets an alarm fire later, or in fewer cases."""
    limit = ("ComparisonOperator", "Threshold")
    changed = [name for name in limit if not same(before.get(name), after.get(name))]
    if changed and not _fires_at_least_as_often(before, after):
        yield from changed
    # Without a number of datapoints all periods count.
    points = [side.get("DatapointsToAlarm", side.get("EvaluationPeriods")) for side in (before, after)]
    if not same(*points) and _higher(0)(*points):
        yield "DatapointsToAlarm"


def _fires_at_least_as_often(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether each value that passed an alarm's threshold passes the new one; False if nobody knows."""
    sides = (before, after)
    (was, included), (sign, includes) = (
        _THRESHOLDS.get(str(side.get("ComparisonOperator")), (0, False)) for side in sides
    )
    if not sign or was != sign:
        return False
    old, new = (sign * number(side.get("Threshold"), 0, unknown=float("nan")) for side in sides)
    return new < old or (new == old and includes >= included)


def _shown(value: object) -> str:
    """Return a value for a reader, dimensions of an alarm in full."""
    if isinstance(value, list) and value and all(isinstance(each, Mapping) and "Name" in each for each in value):
        return ", ".join(f"{each['Name']}={short(each.get('Value'))}" for each in value)
    return short(value)


def _at(properties: Mapping[str, Any], path: str) -> object:
    """Return the value at a path of names; of a list's elements, the one with the weakest value."""
    value: Any = properties
    for name in path.split("."):
        if isinstance(value, list):
            values = [each.get(name) for each in value if isinstance(each, Mapping)]
            value = next((each for each in values if not each), values[0] if values else None) if values else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else (value if isinstance(value, str) else None)
    return value


def _retention(key: Key, sides: TemplateComparison, confirmed: str) -> Iterator[Risk]:
    before, after = sides.base.resources[sides.earlier(key) or key], sides.head.resources[key]
    for name in ("DeletionPolicy", "UpdateReplacePolicy"):
        old, new = str(before.get(name, "Delete")), str(after.get(name, "Delete"))
        if _keeps(old) > _keeps(new):
            reason = "CloudFormation no longer keeps it when it is removed or replaced."
            yield Risk(key, Danger.LOWER_PROTECTION, f"{name} {old} → {new}", reason, confirmed)


def _keeps(policy: str) -> int:
    return 2 if policy in RETAINED else 1 if policy == "Snapshot" else 0


def _isolation(key: Key, kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Risk]:
    """Yield a network add-on that no longer enforces NetworkPolicies."""
    if kind == "AWS::EKS::Addon" and after.get("AddonName") == "vpc-cni":
        old, new = (_network_policy(side.get("ConfigurationValues")) for side in (before, after))
        if old and not new:
            reason = "The add-on no longer enforces NetworkPolicies."
            yield Risk(key, Danger.LOOSER_ISOLATION, "enableNetworkPolicy on → off", reason)
    if kind == "AWS::KMS::Key" and _off(before.get("Enabled", True), after.get("Enabled", True)):
        yield Risk(key, Danger.DATA_LOSS, "Enabled → false", "What the key encrypted becomes unreadable.")


def _network_policy(values: object) -> bool:
    return bool(re.search(r"enableNetworkPolicy[\"']?\s*:\s*[\"']?true", str(values), re.IGNORECASE))


def _auto_delete(sides: TemplateComparison, confirmed: str) -> Iterator[Risk]:
    """Yield buckets that their stack empties: with the bucket, or because the deleter goes and it stays."""
    for each in sides.differing(_AUTO_DELETE):
        key, after = each.key, each.after
        bucket = next(iter(referred(after.get("BucketName"))), ("", ""))
        if each.new and (sides.existed(bucket) or bucket not in sides.head.resources):
            what = f"{short(after.get('BucketName'))} is emptied when it is deleted"
            yield Risk(key, Danger.LOWER_PROTECTION, what, "Its objects go with the bucket.", confirmed)
    for key, before in sides.base.of_type(_AUTO_DELETE):
        now = sides.head.resources.get(key)
        if now is not None and same(before.get("BucketName"), sides.head.properties[key].get("BucketName")):
            continue
        # The function of the CDK empties a bucket only while the bucket has its tag.
        bucket = next(iter(referred(before.get("BucketName"))), ("", ""))
        remaining = sides.head.properties.get(bucket)
        if remaining is None or _AUTO_DELETE_TAG in text(remaining.get("Tags")):
            what = f"the deleter of the objects of {short(before.get('BucketName'))} is removed"
            yield Risk(key, Danger.DATA_LOSS, what, "On its removal it deletes all objects of the bucket.")


def protect_lifted(sides: TemplateComparison) -> bool:
    """Return whether templates show what `protect: false` does, all of it.

    Every stack with termination protection loses it; every retained resource is deleted with its stack from now on,
    buckets with their objects and repositories with their images.
    """
    stacks = sides.base.assembly.stacks if sides.base.assembly else {}
    after = sides.head.assembly.stacks if sides.head.assembly else {}
    protected = [part for part, stack in stacks.items() if stack.settings.get("terminationProtection")]
    kept = [key for key, each in sides.base.resources.items() if each.get("DeletionPolicy") in RETAINED]
    if not protected or not kept or not all(part in after for part in protected):
        return False
    emptied = {next(iter(referred(each.get("BucketName"))), None) for _, each in sides.head.of_type(_AUTO_DELETE)}
    return not any(after[part].settings.get("terminationProtection") for part in protected) and all(
        _released(key, sides, emptied) for key in kept
    )


def _released(key: Key, sides: TemplateComparison, emptied: set[Key | None]) -> bool:
    resource = sides.head.resources.get(key)
    if resource is None or any(resource.get(name) != "Delete" for name in ("DeletionPolicy", "UpdateReplacePolicy")):
        return False
    if resource["Type"] == "AWS::S3::Bucket":
        return key in emptied
    return resource["Type"] != "AWS::ECR::Repository" or is_on(sides.head.properties[key].get("EmptyOnDelete"))
