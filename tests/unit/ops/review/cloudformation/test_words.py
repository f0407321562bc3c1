"""Permissions in words."""

from typing import Any

from ops.review.assembly import Pair
from ops.review.cloudformation.words import permissions
from tests.unit.ops.review.cloudformation.pairs import Pairs, of
from tests.unit.ops.review.cloudformation.test_network import group, rule
from tests.unit.ops.review.cloudformation.test_policies import allow, role


def words(pairs: Pairs, before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    base = None if before is None else pairs.assembly({"storage": {"Resources": before}})
    return list(permissions(Pair("dev", base, pairs.assembly({"storage": {"Resources": after}}))))


def test_a_role_that_may_do_more_with_a_bucket(pairs: Pairs) -> None:
    bucket = {"Data2D4B752F": of("AWS::S3::Bucket")}
    objects = {"Fn::Join": ["", [{"Fn::GetAtt": ["Data2D4B752F", "Arn"]}, "/*"]]}
    old = {**bucket, "RayRole3C804ACF": role(allow("s3:GetObject", objects))}
    new = {**bucket, "RayRole3C804ACF": role(allow(["s3:GetObject", "s3:DeleteObject"], objects))}
    assert words(pairs, old, new) == ["role RayRole may now delete objects in bucket Data"]
    assert words(pairs, new, old) == ["role RayRole may no longer delete objects in bucket Data"]


def test_other_actions_are_named(pairs: Pairs) -> None:
    found = words(pairs, {"R": role()}, {"R": role(allow("fsx:DeleteBackup", "*"))})
    assert found == ["role R may now call `fsx:deletebackup` on everything"]


def test_a_denial_that_goes_is_a_right(pairs: Pairs) -> None:
    denied = {"Effect": "Deny", "Action": "kms:Decrypt", "Resource": "*"}
    assert words(pairs, {"R": role(denied)}, {"R": role()}) == ["role R may now decrypt with everything"]


def test_trust_and_managed_policies(pairs: Pairs) -> None:
    trusted = role(trust={"AWS": "arn:aws:iam::999999999999:root"}, ManagedPolicyArns=["arn:aws:iam::aws:policy/Admin"])
    assert words(pairs, {"R": role()}, {"R": trusted}) == [
        "arn:aws:iam::999999999999:root may now assume role R",
        "ec2.amazonaws.com may no longer assume role R",
        "role R now has the managed policy Admin",
    ]


def test_a_security_group(pairs: Pairs) -> None:
    before, after = {"Group0123ABCD": group(rule("10.1.0.0/16"))}, {"Group0123ABCD": group(rule("10.0.0.0/8"))}
    assert words(pairs, before, after) == ["security group Group now lets in TCP 443 from 10.0.0.0/8"]
    assert words(pairs, after, before) == [
        "security group Group no longer lets in TCP 443 from 10.0.0.0/8",
    ]


def test_nothing_changes(pairs: Pairs) -> None:
    assert words(pairs, {"R": role(allow("s3:*"))}, {"R": role(allow("s3:*"))}) == []
