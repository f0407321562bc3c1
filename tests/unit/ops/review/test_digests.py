"""What identifies a change: an approval covers it, and no other."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ops.review.assembly import Pair
from ops.review.model import Change, Danger
from ops.review.verdict import verdict_on
from tests.unit.ops.review.cloudformation.pairs import Pairs, of

BUCKET = "AWS::S3::Bucket"


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return Pairs(tmp_path)


def stack(**names: str) -> dict[str, Any]:
    """Return a stack with a bucket for each logical id; another name replaces a bucket."""
    return {"Resources": {logical_id: of(BUCKET, BucketName=name) for logical_id, name in names.items()}}


def lost(pair: Pair) -> dict[tuple[str, str], str]:
    """Return the digest of each change that loses data, by its stack and resource."""
    found = [each for each in verdict_on(pair).changes if Danger.DATA_LOSS in each.dangers]
    return {(each.stack, each.resource): each.digest for each in found}


def one(pair: Pair) -> str:
    [digest] = lost(pair).values()
    assert len(digest) == 64
    return digest


def test_next_change_of_the_same_resource_has_another_digest(pairs: Pairs) -> None:
    a, b, c = ({"storage": stack(Data=name)} for name in "abc")
    first, second = one(pairs.pair(a, b)), one(pairs.pair(b, c))
    assert first != second
    assert one(pairs.pair(b, a)) not in {first, second}, "the way back is another change"


def test_another_push_that_changes_the_value_has_another_digest(pairs: Pairs) -> None:
    a, b, c = ({"storage": stack(Data=name)} for name in "abc")
    assert one(pairs.pair(a, b)) != one(pairs.pair(a, c))


def test_value_that_nobody_reads_in_the_table_counts_too(pairs: Pairs) -> None:
    before, after = {"storage": stack(Data="a")}, {"storage": stack(Data="b")}
    tagged = copy.deepcopy(after)
    tagged["storage"]["Resources"]["Data"]["Metadata"] = {"note": "more"}
    assert one(pairs.pair(before, after)) != one(pairs.pair(before, tagged))


def test_other_resources_and_the_order_of_keys_do_not_count(pairs: Pairs) -> None:
    before, after = stack(Data="a", Other="a"), stack(Data="b", Other="a")
    alone = one(pairs.pair({"storage": before}, {"storage": after}))
    more = copy.deepcopy(after)
    more["Resources"] |= {"Added": of(BUCKET, BucketName="new")}
    more["Resources"]["Data"] = json.loads(json.dumps(more["Resources"]["Data"], sort_keys=True))
    assert one(pairs.pair({"storage": before}, {"storage": more, "ray": stack(New="n")})) == alone


def test_resources_of_the_same_name_have_digests_of_their_own(pairs: Pairs) -> None:
    before, after = (
        {"storage": stack(Data0123ABCD=name, Data4567ABCD=name), "platform": stack(Data=name)} for name in "ab"
    )
    found = [each for each in verdict_on(pairs.pair(before, after)).changes if Danger.DATA_LOSS in each.dangers]
    assert [each.resource for each in found] == [f"{BUCKET} Data"] * 3
    assert len({each.digest for each in found}) == 3


def test_digest_is_of_one_environment(pairs: Pairs) -> None:
    pair = pairs.pair({"storage": stack(Data="a")}, {"storage": stack(Data="b")})
    assert one(pair) != one(Pair("prod", pair.base, pair.head))


def test_change_that_follows_from_another_resource_is_bound_to_all_that_differs(pairs: Pairs) -> None:
    """The file system does not differ: it is replaced because its key is."""

    def side(name: str, other: str = "") -> dict[str, Any]:
        key = of("AWS::EC2::Subnet", AvailabilityZone=name, VpcId="vpc-1", CidrBlock="10.0.0.0/24")
        system = of("AWS::FSx::FileSystem", FileSystemType="LUSTRE", SubnetIds=[{"Ref": "Subnet"}])
        return {"storage": {"Resources": {"Subnet": key, "FileSystem": system}}, "ray": stack(Other=other or "o")}

    def follows(after: dict[str, Any]) -> Change:
        found = verdict_on(pairs.pair(side("a"), after)).changes
        [change] = [each for each in found if each.resource == "AWS::FSx::FileSystem FileSystem"]
        assert change.dangers == {Danger.DATA_LOSS}
        return change

    assert len({follows(side("b")).digest, follows(side("c")).digest, follows(side("b", "p")).digest}) == 3


def test_change_of_a_stack_is_bound_to_all_that_differs(pairs: Pairs) -> None:
    def gone(name: str) -> str:
        pair = pairs.pair({"storage": stack(Data=name), "ray": stack(R="r")}, {"ray": stack(R="r")})
        [change] = [each for each in verdict_on(pair).changes if each.resource == "Stack storage"]
        assert change.gated
        return change.digest

    assert gone("a") == gone("a") != gone("b")
