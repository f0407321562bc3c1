"""The rules of S3's buckets: names, policies, access control lists, lifecycles.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from xml.etree import ElementTree

from moto.s3.models import s3_backends

from embedded_account.request_rules.call import CheckedCall, RequestRefusedError, document_of
from embedded_account.services.iam.access import backend_of, listed

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_RESERVED_STARTS: Final = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS: Final = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_POLICY_BYTES: Final = 20 * 1024
_LIFECYCLE_ID: Final = 255
# A statement for everybody is not public if one of these keys has a fixed value.
_FIXING_KEYS: Final = {
    "aws:principalaccount", "aws:principalarn", "aws:principalorgid", "aws:principalorgpaths", "aws:sourceaccount",
    "aws:sourcearn", "aws:sourceip", "aws:sourceorgid", "aws:sourceowner", "aws:sourcevpc", "aws:sourcevpce",
    "aws:userid", "s3:dataaccesspointaccount", "s3:dataaccesspointarn",
}  # fmt: skip


def _check_name(call: CheckedCall) -> None:
    name = str(call.parameters["Bucket"])
    if (
        not _NAME.fullmatch(name)
        or ".." in name
        or _is_address(name)
        or name.startswith(_RESERVED_STARTS)
        or name.endswith(_RESERVED_ENDS)
    ):
        raise RequestRefusedError("InvalidBucketName", "The specified bucket is not valid.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _bucket(call: CheckedCall) -> Any | None:
    return s3_backends[call.account.account_id]["aws"].buckets.get(call.parameters["Bucket"])


def _check_policy(call: CheckedCall) -> None:
    name, malformed = str(call.parameters["Bucket"]), "MalformedPolicy"
    text = call.body.decode()
    policy = document_of(text, malformed, "Policies must be valid JSON and the first byte must be '{'")
    if len(text) > _POLICY_BYTES:
        raise RequestRefusedError(malformed, "Policy exceeds the maximum allowed document size.")
    roles = {role.arn for role in backend_of(call.account).get_roles()}
    for statement in listed(policy.get("Statement")):
        for resource in listed(statement.get("Resource")):
            if not fnmatchcase(name, str(resource).removeprefix("arn:aws:s3:::").partition("/")[0]):
                raise RequestRefusedError(malformed, "Policy has invalid resource")
        for arn in _principals(statement):
            if arn.startswith(f"arn:aws:iam::{call.account.account_id}:role/") and arn not in roles:
                raise RequestRefusedError(malformed, "Invalid principal in policy")
    block = getattr(_bucket(call), "public_access_block", None)
    if block is not None and block.block_public_policy and any(map(_is_public, listed(policy.get("Statement")))):
        raise RequestRefusedError(
            "AccessDenied",
            f"User: {call.caller_arn} is not authorized to perform: s3:PutBucketPolicy on resource: "
            f'"arn:aws:s3:::{name}" because public policies are prevented by the BlockPublicPolicy setting in S3 Block '
            "Public Access.",
            403,
        )


def _principals(statement: Mapping[str, Any]) -> list[str]:
    principal = statement.get("Principal")
    return [str(each) for each in listed(principal.get("AWS") if isinstance(principal, dict) else principal)]


def _is_public(statement: Mapping[str, Any]) -> bool:
    if statement.get("Effect") != "Allow" or "*" not in _principals(statement):
        return False
    return not any(
        key.lower() in _FIXING_KEYS and not operator.startswith(("StringNot", "NotIp", "ArnNot", "Null"))
        and not any(str(value) in {"*", "0.0.0.0/0", "::/0"} for value in listed(values))
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    )  # fmt: skip


def _check_acl(call: CheckedCall) -> None:
    bucket, acl = _bucket(call), call.parameters.get("ACL", "")
    if bucket is not None and _is_enforced(bucket) and acl not in {"", "private", "bucket-owner-full-control"}:
        raise RequestRefusedError("AccessControlListNotSupported", "The bucket does not allow ACLs")


def _is_enforced(bucket: Any) -> bool:
    return bucket.ownership_rule is None or "BucketOwnerEnforced" in str(bucket.ownership_rule)


def _check_lifecycle(call: CheckedCall) -> None:
    for problem in _lifecycle_problems(call.body):
        raise RequestRefusedError("InvalidArgument", problem)


def _lifecycle_problems(body: bytes) -> Iterator[str]:
    root = ElementTree.fromstring(body)  # noqa: S314 - a caller of this run signed it
    rules = root.findall("{*}Rule")
    identifiers = [rule.findtext("{*}ID", "") for rule in rules]
    if any(len(each) > _LIFECYCLE_ID for each in identifiers):
        yield f"ID length should not exceed allowed limit of {_LIFECYCLE_ID}"
    if any(count > 1 for each, count in Counter(identifiers).items() if each):
        yield "Rule ID must be unique. Found same ID for more than one rule"
    if any(int(rule.findtext("{*}Expiration/{*}Days", "1")) <= 0 for rule in rules):
        yield "'Days' for Expiration action must be a positive integer"


RULES: Final[Mapping[str, Callable[[CheckedCall], None]]] = {
    "CreateBucket": _check_name,
    "PutBucketPolicy": _check_policy,
    "PutBucketAcl": _check_acl,
    "PutBucketLifecycleConfiguration": _check_lifecycle,
}
