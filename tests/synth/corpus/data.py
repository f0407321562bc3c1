"""File systems, buckets, keys, image repositories and volumes."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, reverse_keys

FILE_SYSTEM = "AWS::FSx::FileSystem"


@destructive(
    "the construct of the file system is renamed",
    Category.DATA,
    # The new one has another logical id, so that CloudFormation deletes the old one with its data.
    expect("AWS::FSx::FileSystem FileSystem", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("file system",)),
    expect("AWS::FSx::FileSystem Scratch", Effect.CREATED),
)
def _(edit: Edit) -> None:
    edit.rename("storage", FILE_SYSTEM, "FileSystem", "Scratch")


@destructive(
    "the data bucket moves to another stack, without its retention",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("bucket",)),
)
def _(edit: Edit) -> None:
    bucket = edit.delete("storage", "AWS::S3::Bucket", "Data")
    edit.add("network", "Data", "AWS::S3::Bucket", **bucket["Properties"])


@destructive(
    "a volume is deleted with its claim",
    Category.DATA,
    # A reclaim policy is a retention policy; a reader may also call it a loss of data.
    expect(
        "PersistentVolume ",
        Effect.IN_PLACE,
        dangers=(Danger.LOWER_PROTECTION, Danger.DATA_LOSS),
        words=("ray-fsx-claim", "reclaim", "Delete"),
    ),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "PersistentVolume", "ray-fsx-claim") as volume:
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"


@destructive(
    "the key of the Kubernetes secrets gets another construct id",
    Category.DATA,
    expect("AWS::KMS::Key ", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("key",)),
)
def _(edit: Edit) -> None:
    edit.rename("eks", "AWS::KMS::Key", "ClusterSecretsKey", "ClusterSecrets")


@harmless("the keys of all templates are in another order", Category.DATA, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.templates = {part: reverse_keys(template) for part, template in edit.templates.items()}


@harmless(
    "the file system gets a tag",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, Effect.NOTHING),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("storage", FILE_SYSTEM)["Tags"] = [{"Key": "cost-centre", "Value": "research"}]


@harmless(
    "the Lambda layer with kubectl gets another construct id",
    Category.DATA,
    expect("AWS::Lambda::LayerVersion ", Effect.DELETED, Effect.REPLACED),
    worst=Effect.DELETED,
)
def _(edit: Edit) -> None:
    edit.rename("eks", "AWS::Lambda::LayerVersion", "ClusterKubectl", "ClusterTools")
