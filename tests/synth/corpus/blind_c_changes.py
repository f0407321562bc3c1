"""Pairs by a third author who had not seen the judges: data that is lost, clusters that are upgraded."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOSS = Danger.LOWER_PROTECTION, Danger.DATA_LOSS
BUCKET = "AWS::S3::Bucket"
FILE_SYSTEM = "AWS::FSx::FileSystem"
EKS = "AWS::EKS::Cluster"


@destructive(
    "the file system is encrypted with another key",
    Category.DATA,
    # CloudFormation cannot change KmsKeyId: it creates an empty file system, and deletes this one.
    expect(f"{FILE_SYSTEM} FileSystem", Effect.DATA_LOST, dangers=LOSS, words=("KmsKeyId",)),
)
def _(edit: Edit) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/0f0f0f0f-12ab-34cd-56ef-1234567890ab"
    edit.properties("storage", FILE_SYSTEM)["KmsKeyId"] = key


@destructive(
    "checkpoints are deleted after two weeks",
    Category.DATA,
    expect(f"{BUCKET} Data", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOSS, LOWER), words=("14",)),
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    rules.append({"ExpirationInDays": 14, "Prefix": "ray/checkpoints/", "Status": "Enabled"})


@destructive(
    "Kubernetes goes back by one minor version",
    Category.CLUSTERS,
    expect(f"{EKS} Cluster", Effect.IN_PLACE, Effect.REFUSED, dangers=Danger.VERSION_SKIP, words=("1.34",)),
)
def _(edit: Edit) -> None:
    assert edit.properties("eks", EKS)["Version"] == "1.35"
    edit.properties("eks", EKS)["Version"] = "1.34"


@destructive(
    "a public policy may be put on the bucket of lifecycle scripts",
    Category.PROTECTION,
    expect(
        f"{BUCKET} Lifecycle",
        Effect.IN_PLACE,
        dangers=(Danger.PUBLIC_ENDPOINT, LOWER),
        words=("BlockPublicPolicy",),
    ),
)
def _(edit: Edit) -> None:
    edit.properties("storage", BUCKET, "Lifecycle")["PublicAccessBlockConfiguration"]["BlockPublicPolicy"] = False


@harmless(
    "the file system has twice the capacity",
    Category.DATA,
    expect(f"{FILE_SYSTEM} FileSystem", Effect.IN_PLACE, words=("2400",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("storage", FILE_SYSTEM)["StorageCapacity"] = 2400


@harmless(
    "nobody can delete the EKS cluster by mistake",
    Category.CLUSTERS,
    expect(f"{EKS} Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["DeletionProtection"] = True
