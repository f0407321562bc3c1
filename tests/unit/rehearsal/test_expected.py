"""The expected time of a deployment on AWS: its order, with the minutes of the table."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.estimates import creation
from rehearsal.report import expected, timeline
from tests.unit.rehearsal.test_timeline import created

CLUSTER, NAT, CHART = "AWS::EKS::Cluster", "AWS::EC2::NatGateway", "Custom::AWSCDK-EKS-HelmChart"
STACK = creation.of_stack().typical


def typical(*types: str) -> float:
    """Return the typical minutes of the types together."""
    return sum(creation.of_type(each).typical for each in types)


def resource(stack: str, name: str, type: str, *waited_for: str, at: float = 0) -> dict[str, Any]:
    """Return a journal's entry of a resource that took a laptop's split second."""
    return created(stack, name, at, at + 0.1, *waited_for, type=type)


def expect(journal: list[dict[str, Any]], upstream: dict[str, tuple[str, ...]], places: int = 3) -> Any:
    return expected.expect(timeline.bands(journal), upstream, places=places)


def test_a_chain_takes_the_sum_of_its_minutes() -> None:
    journal = [resource("eks", "A", NAT), resource("eks", "B", CLUSTER, "A"), resource("eks", "C", CHART, "B")]
    found = expect(journal, {"eks": ()})
    assert found.typical.minutes == pytest.approx(STACK + typical(NAT, CLUSTER, CHART))
    assert found.chain == pytest.approx(found.typical.minutes)
    assert [bar.name for bar in found.typical.critical] == ["A", "B", "C"]


def test_a_diamond_takes_its_slower_side() -> None:
    journal = [
        resource("eks", "Top", NAT),
        resource("eks", "Slow", CLUSTER, "Top"),
        resource("eks", "Quick", CHART, "Top"),
        resource("eks", "End", NAT, "Quick", "Slow"),
    ]
    found = expect(journal, {"eks": ()})
    assert found.typical.minutes == pytest.approx(STACK + typical(NAT, CLUSTER, NAT))
    assert [bar.name for bar in found.typical.critical] == ["Top", "Slow", "End"]


def test_a_stack_starts_when_the_last_of_its_upstream_stacks_is_complete() -> None:
    journal = [resource("a", "A", CLUSTER), resource("b", "B", NAT), resource("c", "C", CHART)]
    found = expect(journal, {"a": (), "b": (), "c": ("a", "b")})
    third = next(band for band in found.typical.bands if band.stack == "c")
    assert third.start == pytest.approx(STACK + typical(CLUSTER) + STACK)
    assert [bar.name for bar in found.typical.critical] == ["A", "C"]


def test_a_stack_without_a_place_waits_for_one() -> None:
    journal = [resource(name, name, CLUSTER) for name in "abc"] + [resource("d", "d", NAT)]
    upstream: dict[str, tuple[str, ...]] = dict.fromkeys("abcd", ())
    found = expect(journal, upstream, places=3)
    assert found.chain == pytest.approx(STACK + typical(CLUSTER))
    assert found.typical.minutes == pytest.approx(2 * STACK + typical(CLUSTER, NAT))
    assert found.typical.critical[-1].name == "d"
    assert expect(journal, upstream, places=4).typical.minutes == pytest.approx(found.chain)


def test_the_place_that_is_free_first_is_taken() -> None:
    journal = [resource("a", "A", CLUSTER), resource("b", "B", NAT), resource("c", "C", NAT)]
    found = expect(journal, {"a": (), "b": (), "c": ()}, places=2)
    assert found.typical.minutes == pytest.approx(STACK + typical(CLUSTER))


def test_low_and_high_have_their_own_columns() -> None:
    row = creation.of_type(CLUSTER)
    found = expect([resource("eks", "A", CLUSTER)], {"eks": ()})
    assert found.low.minutes == pytest.approx(creation.of_stack().low + row.low)
    assert found.high.minutes == pytest.approx(creation.of_stack().high + row.high)


def test_the_line_names_the_range_and_the_slow_steps() -> None:
    journal = [
        resource("eks", "R", "AWS::IAM::Role"),
        resource("eks", "B", CLUSTER, "R"),
        resource("eks", "C", CHART, "B"),
    ]
    assert (
        expect(journal, {"eks": ()}).line()
        == "on AWS about 12 minutes (9 to 19): EKS Cluster 10 → HelmChart 1 → all else 1"
    )


def test_what_a_deployment_does_not_wait_for_is_named() -> None:
    assert expected.later_line(ray=False) == "not waited for: nodes 17 (10 to 25), deep health checks 120 (60 to 180)"
    assert "image build 12 (10 to 15)" in expected.later_line(ray=True)


def test_the_assembly_s_manifest_has_the_stacks_dependencies(tmp_path: Path) -> None:
    def stack(*needs: str, **properties: str) -> dict[str, Any]:
        return {"type": "aws:cloudformation:stack", "properties": properties, "dependencies": list(needs)}

    artifacts = {
        "network": stack("network.assets"),
        "network.assets": {"type": "cdk:asset-manifest", "properties": {}},
        "Eks": stack("network", "Eks.assets", stackName="named"),
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    assert expected.upstream(tmp_path) == {"network": (), "named": ("network",)}
    assert expected.upstream(tmp_path / "none") == {}


def declared(tmp_path: Path, resources: dict[str, Any]) -> dict[str, timeline.Bar]:
    """Return the bars of an assembly with one stack, by name."""
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "eks.json"}}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {"eks": stack}}))
    (tmp_path / "eks.json").write_text(json.dumps({"Resources": resources}))
    [band] = expected.declared(tmp_path)
    assert band.stack == "eks"
    return {bar.name: bar for bar in band.bars}


def test_a_template_s_resources_wait_for_what_they_name(tmp_path: Path) -> None:
    used = {
        "One": {"Ref": "A"},
        "Two": [{"Fn::GetAtt": ["B", "Arn"]}],
        "Three": {"Fn::Sub": "${C}-${D.Arn}-${AWS::Region}-${!Literal}-${Given}"},
        "Four": {"Fn::Sub": ["${Own}", {"Own": {"Ref": "E"}}]},
        "Five": {"Fn::Join": ["", [{"Ref": "F"}, {"Ref": "AWS::Region"}]]},
    }
    resources = {name: {"Type": NAT} for name in "ABCDEFGHI"}
    named = {"Type": CLUSTER, "DependsOn": ["G"], "Properties": used}
    bars = declared(tmp_path, {**resources, "User": named, "Single": {"Type": CLUSTER, "DependsOn": "H"}})
    assert bars["User"].waited_for == tuple("ABCDEFG")
    assert bars["Single"].waited_for == ("H",)


def test_functions_of_a_vpc_share_interfaces_which_go_with_the_last_one(tmp_path: Path) -> None:
    """A destroy deletes the framework's function first, as it names the handler."""
    vpc = {"VpcConfig": {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}}
    handler = {"Type": "AWS::Lambda::Function", "Properties": vpc}
    framework = {"Type": "AWS::Lambda::Function", "Properties": {**vpc, "Environment": {"Ref": "Handler"}}}
    bars = declared(tmp_path, {"Handler": handler, "Framework": framework})
    assert {name: bar.type for name, bar in bars.items()} == {
        "Handler": creation.FUNCTION_IN_VPC,
        "Framework": "AWS::Lambda::Function",
    }


def test_a_destroy_goes_the_other_way_with_the_minutes_of_deletions() -> None:
    journal = [
        resource("network", "Nat", NAT),
        resource("eks", "Cluster", CLUSTER),
        resource("eks", "Nodes", "AWS::EKS::Nodegroup", "Cluster"),
        resource("storage", "Files", "AWS::FSx::FileSystem"),
    ]
    upstream = {"network": (), "eks": ("network",), "storage": ("network",)}
    found = expected.expect_destroy(timeline.bands(journal), upstream, places=3)
    assert [bar.name for bar in found.typical.critical] == ["Nodes", "Cluster", "Nat"]
    minutes = sum(creation.of_deletion(each).typical for each in ("AWS::EKS::Nodegroup", CLUSTER, NAT))
    assert found.typical.minutes == pytest.approx(2 * STACK + minutes)
    assert found.line("a destroy takes about").startswith(
        f"a destroy takes about {found.typical.minutes:.0f} minutes ("
    )
