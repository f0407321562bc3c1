"""Termination protection, retention, versioning, encryption, logs."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER = Danger.LOWER_PROTECTION


@destructive(
    "the storage stack loses its termination protection",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, dangers=LOWER, words=("termination",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    settings = edit.settings("storage")
    assert settings["terminationProtection"] is True
    settings["terminationProtection"] = False


@destructive(
    "the versions of the data bucket are suspended",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=LOWER, words=("version",)),
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::S3::Bucket", "Data")["VersioningConfiguration"]["Status"] = "Suspended"


@destructive(
    "the file system would be deleted with its stack",
    Category.PROTECTION,
    expect(
        "AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, Effect.NOTHING, dangers=LOWER, words=("DeletionPolicy",)
    ),
    environment="prod",
)
def _(edit: Edit) -> None:
    _, body = edit.find("storage", "AWS::FSx::FileSystem")
    assert body.pop("DeletionPolicy").startswith("Retain")


@harmless("a log is kept for longer", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::Logs::LogGroup", "FlowLogsLog")["RetentionInDays"] = 365


@harmless("the data bucket stays when its stack is deleted", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _, body = edit.find("storage", "AWS::S3::Bucket", "Data")
    assert body["DeletionPolicy"] == "Delete"
    body["DeletionPolicy"] = body["UpdateReplacePolicy"] = "Retain"


@harmless("a stack is protected against its deletion", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.settings("eks")["terminationProtection"] = True
