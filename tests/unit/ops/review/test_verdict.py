"""The whole verdict on one environment."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ops.review import verdict
from ops.review.assembly import Assembly, Pair, ResourceChange
from ops.review.model import Change, Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, of
from tests.unit.ops.review.hyperpod.assemblies import assembly, cluster, group
from tests.unit.ops.review.kubernetes.assemblies import RAY_CLUSTER, manifest

Changes = Callable[[Pair, Sequence[ResourceChange]], Iterator[Change]]
KINDS = {
    "cloudformation": "AWS::S3::Bucket",
    "hyperpod": "Custom::CDKBucketDeployment",
    "kubernetes": "Custom::AWSCDK-EKS-HelmChart",
}


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return Pairs(tmp_path)


def two_of(kind: str, text: str) -> dict[str, Any]:
    """Return a stack with two resources of a kind whose logical ids differ in CDK's hash alone."""
    each = {"Release": "r", "Namespace": "n", "Values": "{}", "BucketName": text, "Description": text}
    return {"storage": {"Resources": {f"Thing{hash_}": of(kind, **each) for hash_ in ("0123ABCD", "4567ABCD")}}}


@pytest.mark.parametrize("name", KINDS)
def test_resource_that_a_module_skips_is_unknown(name: str, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    module = getattr(verdict, name)
    honest: Changes = module.changes

    def skipping(pair: Pair, differing: Sequence[ResourceChange]) -> Iterator[Change]:
        yield from (each for each in honest(pair, differing) if differing[-1].address not in each.addresses)

    pair = pairs.pair(two_of(KINDS[name], "a"), two_of(KINDS[name], "b"))
    assert not [each for each in verdict.verdict_on(pair).changes if each.title.startswith(KINDS[name])]
    monkeypatch.setattr(module, "changes", skipping)
    [overlooked] = [each for each in verdict.verdict_on(pair).changes if each.title.startswith(KINDS[name])]
    assert overlooked.resource == f"{KINDS[name]} Thing4567ABCD"
    assert overlooked.effect is Effect.UNKNOWN
    assert overlooked.gated == {Danger.UNKNOWN}


def test_change_names_the_resources_that_it_accounts_for(pairs: Pairs) -> None:
    kind = KINDS["cloudformation"]
    found = verdict.verdict_on(pairs.pair(two_of(kind, "a"), two_of(kind, "b"))).changes
    assert {each.addresses for each in found} == {
        (("storage", "Thing0123ABCD"),),
        (("storage", "Thing4567ABCD"),),
    }


@pytest.mark.parametrize("kind", ["AWS::S3::Bucket", "Custom::AWSCDK-EKS-KubernetesResource"])
def test_verdict_reads_a_folder_again_that_was_written_again(kind: str, pairs: Pairs) -> None:
    def declared(text: str) -> dict[str, Any]:
        manifest = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": text}}]
        return {"Resources": {"Thing0123ABCD": of(kind, BucketName=text, Manifest=json.dumps(manifest))}}

    base, head = (pairs.assembly({"storage": declared("a")}) for _ in range(2))
    assert not verdict.verdict_on(Pair("dev", base, head)).changes
    (head.directory / "rayhp-dev-storage.template.json").write_text(json.dumps(declared("b")))
    changes = verdict.verdict_on(Pair("dev", base, Assembly(head.directory))).changes
    assert changes
    assert Effect.NOTHING not in {each.effect for each in changes}


def asked(tmp_path: Path, counts: tuple[int, int], workers: Any, removable: int) -> set[str]:
    """Return what needs an approval if two groups of four nodes, and four workers, get these numbers."""

    def side(name: str, one: int, two: int, replicas: Any) -> Assembly:
        spec = copy.deepcopy(RAY_CLUSTER)
        spec["spec"]["workerGroupSpecs"][0] |= {"replicas": replicas, "minReplicas": 0, "maxReplicas": 9}
        nodes = cluster(group("one", one), group("two", two))
        return assembly(tmp_path / name, hyperpod={"C": nodes}, ray={"M": manifest(spec)})

    base, head = side("base", 4, 4, 4), side("head", *counts, workers)
    pair = Pair("dev", base, head, removable_nodes=removable)
    found = verdict.verdict_on(pair).changes
    assert {danger for each in found for danger in each.gated} <= {Danger.JOBS_ENDED}
    return {each.resource for each in found if each.gated}


NODES = {"InstanceGroup one", "InstanceGroup two"}
RAY = {"RayCluster ray/rayml"}


@pytest.mark.parametrize(
    ("counts", "workers", "removable", "needing"),
    [
        ((5, 4), 5, 0, set()),
        ((3, 4), 4, 0, {"InstanceGroup one"}),
        ((3, 4), 3, 1, set()),
        ((3, 4), 2, 1, {"InstanceGroup one", *RAY}),
        ((2, 2), 4, 3, NODES),
        ((2, 2), 0, 4, set()),
        ((4, 4), 0, 3, RAY),
        ((3, 4), "${Count}", 9, {"InstanceGroup one", *RAY}),
    ],
)
def test_losses_of_one_change_need_an_approval_above_the_number_that_the_base_allows(
    counts: tuple[int, int], workers: Any, removable: int, needing: set[str], tmp_path: Path
) -> None:
    assert asked(tmp_path, counts, workers, removable) == needing
