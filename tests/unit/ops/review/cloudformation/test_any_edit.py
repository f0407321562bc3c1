"""Whatever is edited, each differing resource has a change, and order means nothing."""

import copy
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ops.review.assembly import Pair, resource_changes, stable
from ops.review.cloudformation import changes as cloudformation
from ops.review.model import Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, of
from tests.unit.ops.review.cloudformation.test_effects import FILE_SYSTEM, RETAIN
from tests.unit.ops.review.cloudformation.test_network import CLUSTER, group, rule
from tests.unit.ops.review.cloudformation.test_policies import TLS, allow, role
from tests.unit.ops.review.cloudformation.test_protection import BUCKET, KEY, REPOSITORY, TEMPLATE

RESOURCES: dict[str, Any] = {
    "FileSystem8A8E25C0": {**FILE_SYSTEM, **RETAIN},
    "Data2D4B752F": BUCKET,
    "Policy0123ABCD": of("AWS::S3::BucketPolicy", Bucket={"Ref": "Data2D4B752F"}, PolicyDocument={"Statement": [TLS]}),
    "Image": REPOSITORY,
    "Key": KEY,
    "Cluster": CLUSTER,
    "Template": TEMPLATE,
    "Group": group(rule(), rule("10.1.0.0/16", 22, 80)),
    "Role": role(
        allow(["s3:Get*", "s3:Put*"], ["arn:a", "arn:b"]), allow("s3:List*", {"Fn::GetAtt": ["Data2D4B752F", "Arn"]})
    ),
    "Function": of("AWS::Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]}, Timeout=3),
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 65535),
    st.sampled_from(["*", "0.0.0.0/0", "Retain", "Delete", "1.36", "{}", '{"a": [1]}']),
    st.sampled_from([{}, [], [{}], {"Ref": "Role"}, {"Fn::If": ["A", 1, 2]}, {"Fn::GetAtt": "Role.Arn"}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a template."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, each in pairs for found in [(*path, key), *places(each, (*path, key))]]


PLACES = [place for place in places(RESOURCES) if "Fn::GetAtt" not in place and "Type" not in place]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_each_differing_resource_has_a_change(edits: list[tuple[tuple[Any, ...], Any]]) -> None:
    after = copy.deepcopy(RESOURCES)
    for place, value in edits:
        _replace(after, place, value)
    with TemporaryDirectory() as folder:
        pairs = Pairs(Path(folder))
        base, head = (pairs.assembly({"storage": {"Resources": each}}) for each in (RESOURCES, after))
        pair = Pair("dev", base, head)
        differing = list(resource_changes(pair))
        found = {change.resource for change in cloudformation.changes(pair, differing)}
    assert {f"{each.type} {stable(each.logical_id)}" for each in differing} <= found


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_values_in_another_order_change_nothing(source: random.Random) -> None:
    after = _shuffled(RESOURCES, source)
    with TemporaryDirectory() as folder:
        found = Pairs(Path(folder)).changes(RESOURCES, after)
    assert all(change.effect.rank >= Effect.IN_PLACE.rank and not change.dangers for change in found)


def _replace(target: Any, place: tuple[Any, ...], value: Any) -> None:
    """Set a value, if earlier edits left its place there; a resource itself is removed."""
    for key in place[:-1]:
        if not isinstance(target, dict | list) or not _has(target, key):
            return
        target = target[key]
    if isinstance(target, dict) and len(place) == 1:
        target.pop(place[0], None)
    elif isinstance(target, dict | list) and _has(target, place[-1]):
        target[place[-1]] = value


def _has(target: dict[Any, Any] | list[Any], key: Any) -> bool:
    return key in target if isinstance(target, dict) else isinstance(key, int) and key < len(target)


def _shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, list):
        mixed = [_shuffled(each, source) for each in value]
        source.shuffle(mixed)
        return mixed
    if isinstance(value, dict):
        # The order of an expression's arguments has a meaning.
        mixed = [(key, each if key.startswith("Fn::") else _shuffled(each, source)) for key, each in value.items()]
        source.shuffle(mixed)
        return dict(mixed)
    return value
