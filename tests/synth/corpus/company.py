"""A company's rules: the pattern of names, the KMS key."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, Expected, expect, harmless
from tests.synth.corpus.editing import Edit


def _pattern(document: Document) -> None:
    document["company"] = {"name_pattern": "acme-{environment}-{name}"}
    document["hyperpod"]["cluster_name"] = "acme-dev-ml-cluster"
    document["image"]["repository"] = "acme-dev-ray"


CASES.append(
    Case(
        "the environment's file asks for another pattern of names",
        Category.CLUSTERS,
        True,
        # CloudFormation knows stacks by name: it makes new ones, and nothing manages the old ones.
        (
            Expected(
                "Stack storage",
                frozenset({Effect.KEPT}),
                frozenset({Danger.CLUSTER_LOSS}),
                ("rayhp-dev-storage", "acme-dev-storage"),
            ),
            Expected("HyperPodCluster", frozenset({Effect.REFUSED}), words=("ClusterName", "acme-dev-ml-cluster")),
            expect("AWS::EKS::Cluster ", Effect.REPLACED, dangers=Danger.CLUSTER_LOSS, words=("acme-dev-eks",)),
        ),
        Effect.DATA_LOST,
        file=_pattern,
    )
)


@harmless(
    "the flow logs get a KMS key",
    Category.PROTECTION,
    expect("AWS::Logs::LogGroup ", Effect.IN_PLACE, words=("KmsKeyId",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    edit.properties("network", "AWS::Logs::LogGroup")["KmsKeyId"] = key
