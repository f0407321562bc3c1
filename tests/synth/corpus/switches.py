"""Pairs about rules that delete after a time, and switches whose value only the deployment knows."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

BUCKET = "AWS::S3::Bucket"
LOWER = Danger.LOWER_PROTECTION

# Deletions by rules


def _rule(edit: Edit) -> dict[str, Any]:
    rule: dict[str, Any] = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"][0]
    return rule


@destructive(
    "unfinished uploads to a bucket are deleted after a day",
    Category.DATA,
    expect(f"{BUCKET} Data", Effect.IN_PLACE, dangers=LOWER, words=("uploads", "7")),
)
def _(edit: Edit) -> None:
    _rule(edit)["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] = 1


@harmless("unfinished uploads to a bucket are kept for longer", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _rule(edit)["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] = 30


@destructive(
    "a rule before another one deletes replaced versions after a day",
    Category.DATA,
    expect(f"{BUCKET} Data", Effect.IN_PLACE, dangers=LOWER, words=("noncurrent versions", "30")),
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    rules.insert(0, {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}, "Status": "Enabled"})


@harmless("more of the replaced versions are kept", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _rule(edit)["NoncurrentVersionExpiration"]["NewerNoncurrentVersions"] = 5


# Switches whose value only the deployment knows


def _switch(edit: Edit, part: str) -> dict[str, Any]:
    edit.templates[part].setdefault("Parameters", {})["Switch"] = {"Type": "String", "Default": "true"}
    return {"Ref": "Switch"}


@destructive(
    "a parameter decides whether the image repository is emptied",
    Category.PROTECTION,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, dangers=LOWER, words=("EmptyOnDelete",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::ECR::Repository")["EmptyOnDelete"] = _switch(edit, "storage")


@destructive(
    "a parameter decides whether interfaces of a subnet get public addresses",
    Category.NETWORK,
    expect("AWS::EC2::Subnet VpcNodes0", Effect.IN_PLACE, dangers=Danger.PUBLIC_ENDPOINT, words=("MapPublicIp",)),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::Subnet", "VpcNodes0")["MapPublicIpOnLaunch"] = _switch(edit, "network")


@harmless("a switch that is off is written as a text", Category.PROTECTION, worst=Effect.IN_PLACE, environment="prod")
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::ECR::Repository")["EmptyOnDelete"] = "false"


@harmless("a subnet's interfaces still get no public address", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    del edit.properties("network", "AWS::EC2::Subnet", "VpcNodes0")["MapPublicIpOnLaunch"]
