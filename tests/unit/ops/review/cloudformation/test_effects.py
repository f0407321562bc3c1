"""What a deployment does to resources: in place, replaced, deleted, kept, renamed."""

from typing import Any

import pytest

from ops.review.model import Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, changes, dangers, of, worst

FILE_SYSTEM = of(
    "AWS::FSx::FileSystem",
    FileSystemType="LUSTRE",
    StorageCapacity=4800,
    SubnetIds=["subnet-1"],
    SecurityGroupIds=["sg-1", "sg-2"],
    LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
)
RETAIN = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
BUCKET = of("AWS::S3::Bucket", BucketName="data")
ROLE = of("AWS::IAM::Role", AssumeRolePolicyDocument={"Statement": []})
LOG = of("AWS::Logs::LogGroup", RetentionInDays=30)


def test_a_property_that_replaces_the_file_system_loses_its_data(pairs: Pairs) -> None:
    [change] = pairs.edited(FILE_SYSTEM, LustreConfiguration__PerUnitStorageThroughput=500)
    assert (change.effect, set(change.dangers)) == (Effect.DATA_LOST, {Danger.DATA_LOSS})
    assert change.resource == "AWS::FSx::FileSystem Thing"
    assert change.what == "LustreConfiguration.PerUnitStorageThroughput 250 → 500"
    assert "replaces it. CloudFormation creates a new, empty one and deletes the old one." in change.reason
    assert "No data repository association exports its files: all of them are lost." in change.reason
    assert (change.action, change.fails_unless) == (
        "Operator, before the deployment: copy the files that are needed later.",
        "",
    )


def test_tags_are_compared_by_key_in_any_order(pairs: Pairs) -> None:
    before = of("AWS::S3::Bucket", Tags=[{"Key": "team", "Value": "ml"}, {"Key": "old", "Value": "x"}])
    after = [{"Key": "cost", "Value": "42"}, {"Key": "team", "Value": "research"}]
    [change] = pairs.edited(before, Tags=after)
    assert change.what == "Tags.cost unset → 42; Tags.old x → unset; Tags.team ml → research"
    [change] = pairs.edited(of("AWS::S3::Bucket"), Tags=after)
    assert change.what == "Tags.cost unset → 42; Tags.team unset → research"


def test_a_file_system_in_use_is_replaced_only_without_the_stacks_that_use_it(pairs: Pairs) -> None:
    outputs = {"Id": {"Value": {"Ref": "FileSystem0123ABCD"}, "Export": {"Name": "storage:id"}}}
    mirror = of(
        "AWS::FSx::DataRepositoryAssociation",
        FileSystemId={"Ref": "FileSystem0123ABCD"},
        FileSystemPath="/checkpoints",
        S3={"AutoExportPolicy": {"Events": ["NEW"]}},
    )
    ray = {"Resources": {"Volume": of("AWS::SSM::Parameter", Value={"Fn::ImportValue": "storage:id"})}}
    before, after = (
        {
            "storage": {
                "Outputs": outputs,
                "Resources": {
                    "FileSystem0123ABCD": {**FILE_SYSTEM, "Properties": {**FILE_SYSTEM["Properties"], **more}},
                    "Mirror": mirror,
                },
            },
            "ray": ray,
        }
        for more in (
            {},
            {"StorageType": "HDD", "SubnetIds": ["subnet-9"]},
        )
    )
    after["storage"]["Resources"]["FileSystem0123ABCD"]["Properties"]["StorageType"] = "SSD"
    [change] = [each for each in changes(pairs.pair(before, after)) if each.effect is Effect.DATA_LOST]
    assert change.fails_unless == "stack ray is destroyed first, because it uses file system FileSystem"
    assert "Files below /checkpoints are exported to a bucket; all others are lost." in change.reason
    assert "`cdk destroy rayhp-dev-ray -c environment=dev`" in change.action


@pytest.mark.parametrize(
    ("after", "follows"),
    [("b" * 64, True), ("b" * 63, False), ("*", False), (f"{'b' * 64}/*", False)],
)
def test_rights_that_follow_a_hash_are_told_as_such(pairs: Pairs, after: str, follows: bool) -> None:
    def role(digest: str) -> dict[str, Any]:
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::assets/{digest}"}
        return {
            **ROLE,
            "Properties": {**ROLE["Properties"], "Policies": [{"PolicyDocument": {"Statement": [statement]}}]},
        }

    found = pairs.changes({"Role": role("a" * 64)}, {"Role": role(after)})
    assert ("rights follow the new content hashes, no wider than before" in {each.what for each in found}) is follows


@pytest.mark.parametrize(
    ("properties", "effect"),
    [
        ({"StorageCapacity": 7200}, Effect.IN_PLACE),
        ({"StorageCapacity": 2400}, Effect.REFUSED),
        ({"LustreConfiguration__EfaEnabled": True}, Effect.REFUSED),
        ({"SecurityGroupIds": ["sg-2", "sg-1"]}, Effect.IN_PLACE),
        ({"StorageCapacity": "4800"}, Effect.IN_PLACE),
        ({"LustreConfiguration__Invented": 1}, Effect.UNKNOWN),
    ],
)
def test_other_changes_of_the_file_system(pairs: Pairs, properties: dict[str, Any], effect: Effect) -> None:
    [change] = pairs.edited(FILE_SYSTEM, **properties)
    assert change.effect is effect
    assert change.dangers == ({Danger.UNKNOWN} if effect is Effect.UNKNOWN else set())


@pytest.mark.parametrize(
    ("resource", "effect", "danger"),
    [
        (BUCKET, Effect.DATA_LOST, Danger.DATA_LOSS),
        (of("AWS::KMS::Key"), Effect.DATA_LOST, Danger.DATA_LOSS),
        (of("AWS::ECR::Repository"), Effect.DATA_LOST, Danger.DATA_LOSS),
        (of("AWS::EKS::Cluster"), Effect.DELETED, Danger.CLUSTER_LOSS),
        (of("AWS::EC2::Subnet"), Effect.DELETED, Danger.CLUSTER_LOSS),
        (of("AWS::EKS::Nodegroup"), Effect.NODES_REMOVED, Danger.CLUSTER_LOSS),
        (of("AWS::EC2::FlowLog"), Effect.DELETED, Danger.LOWER_PROTECTION),
        (LOG, Effect.DELETED, Danger.LOWER_PROTECTION),
        (of("AWS::RDS::DBInstance"), Effect.DELETED, Danger.UNKNOWN),
        (of("AWS::EKS::Addon", AddonName="vpc-cni"), Effect.DELETED, Danger.LOOSER_ISOLATION),
        (of("AWS::Lambda::Function"), Effect.DELETED, None),
        (ROLE, Effect.DELETED, None),
        ({**BUCKET, **RETAIN}, Effect.KEPT, None),
        ({**of("AWS::EC2::VPC"), **RETAIN}, Effect.KEPT, Danger.CLUSTER_LOSS),
    ],
)
def test_a_removed_resource_loses_what_its_type_holds(
    pairs: Pairs, resource: dict[str, Any], effect: Effect, danger: Danger | None
) -> None:
    [change] = pairs.changes({"Thing0123ABCD": resource, "Role": ROLE}, {"Role": ROLE})
    assert (change.effect, set(change.dangers)) == (effect, {danger} if danger else set())


def test_a_retained_file_system_that_is_replaced_is_kept_but_its_users_get_an_empty_one(pairs: Pairs) -> None:
    [change] = pairs.edited({**FILE_SYSTEM, **RETAIN}, SubnetIds=["subnet-2"])
    assert (change.effect, set(change.dangers)) == (Effect.KEPT, {Danger.DATA_LOSS})
    assert "stays in the account" in change.reason


@pytest.mark.parametrize("policies", [{}, RETAIN])
def test_a_renamed_construct_loses_its_data(pairs: Pairs, policies: dict[str, Any]) -> None:
    old = {**BUCKET, **policies}
    found = pairs.changes({"Data0123ABCD": old}, {"Renamed89ABCDEF": old})
    gone = next(change for change in found if change.resource == "AWS::S3::Bucket Data")
    assert gone.dangers == {Danger.DATA_LOSS}
    assert "The same definition appears as Renamed in stack storage" in gone.reason


def test_a_retained_bucket_that_another_one_succeeds_is_dangerous_even_with_other_properties(pairs: Pairs) -> None:
    new = {**of("AWS::S3::Bucket", BucketName="other"), **RETAIN}
    assert Danger.DATA_LOSS in dangers(pairs.changes({"Data": {**BUCKET, **RETAIN}}, {"Other": new}))


def test_a_file_system_that_moves_to_another_stack_loses_its_data(pairs: Pairs) -> None:
    storage = {"Resources": {"FileSystem0123ABCD": FILE_SYSTEM}}
    other: dict[str, Any] = {"Resources": {}}
    found = changes(pairs.pair({"storage": storage, "eks": other}, {"storage": other, "eks": storage}))
    assert worst(found) is Effect.DATA_LOST
    assert any("appears as FileSystem in stack eks" in change.reason for change in found)


def test_a_renamed_function_with_its_role_and_log_is_harmless(pairs: Pairs) -> None:
    def function(name: str) -> dict[str, Any]:
        policy = {"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": {"Fn::GetAtt": ["Data", "Arn"]}}}
        return {
            "Data": BUCKET,
            f"{name}Role": ROLE,
            f"{name}Log": LOG,
            f"{name}Policy": of("AWS::IAM::Policy", PolicyDocument=policy, Roles=[{"Ref": f"{name}Role"}]),
            name: of(
                "AWS::Lambda::Function",
                Role={"Fn::GetAtt": [f"{name}Role", "Arn"]},
                LoggingConfig={"LogGroup": {"Ref": f"{name}Log"}},
            ),
        }

    found = pairs.changes(function("Old"), function("New"))
    assert dangers(found) == set()
    assert len(found) == 8


def test_the_replacement_of_a_security_group_replaces_the_file_system_that_names_it(pairs: Pairs) -> None:
    group = of("AWS::EC2::SecurityGroup", GroupDescription="old", VpcId="vpc-1")
    network = {
        "Resources": {"Group": group},
        "Outputs": {"Id": {"Value": {"Fn::GetAtt": ["Group", "GroupId"]}, "Export": {"Name": "group"}}},
    }
    changed = {**network, "Resources": {"Group": of("AWS::EC2::SecurityGroup", GroupDescription="new", VpcId="vpc-1")}}
    storage = {"Resources": {"FileSystem": of("AWS::FSx::FileSystem", SecurityGroupIds=[{"Fn::ImportValue": "group"}])}}
    found = changes(pairs.pair({"network": network, "storage": storage}, {"network": changed, "storage": storage}))
    lost = next(change for change in found if change.stack == "storage")
    assert (lost.effect, set(lost.dangers)) == (Effect.DATA_LOST, {Danger.DATA_LOSS})
    assert "Group, which SecurityGroupIds names, is replaced." in lost.reason


@pytest.mark.parametrize("name", ["Metadata", "DependsOn"])
def test_metadata_and_order_change_nothing(pairs: Pairs, name: str) -> None:
    [change] = pairs.changes({"A": BUCKET}, {"A": {**BUCKET, name: {"aws:cdk:path": "b"}}})
    assert (change.effect, set(change.dangers)) == (Effect.NOTHING, set())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BUCKET, {**BUCKET, "Condition": "Never"}),
        (BUCKET, {**BUCKET, "Metadata": {"AWS::CloudFormation::Init": {}}}),
        (BUCKET, of("AWS::S3::Bucket", **{"Fn::Transform": {"Name": "AWS::Include"}})),
        (of("Custom::Invented", A=1), of("Custom::Invented", A=2)),
        (of("AWS::CloudFormation::Stack", TemplateURL="a"), of("AWS::CloudFormation::Stack", TemplateURL="b")),
    ],
)
def test_what_no_rule_knows_is_unknown(pairs: Pairs, before: dict[str, Any], after: dict[str, Any]) -> None:
    found = pairs.changes({"A": before}, {"A": after})
    assert worst(found) is Effect.UNKNOWN
    assert dangers(found) == {Danger.UNKNOWN}


def test_a_changed_type_loses_what_the_old_type_held(pairs: Pairs) -> None:
    assert dangers(pairs.changes({"A": BUCKET}, {"A": LOG})) == {Danger.DATA_LOSS}


def test_a_created_resource_of_an_unknown_type_is_unknown(pairs: Pairs) -> None:
    assert dangers(pairs.changes({"A": BUCKET}, {"A": BUCKET, "B": of("Custom::Invented")})) == {Danger.UNKNOWN}


@pytest.mark.parametrize(
    ("after", "danger"),
    [("1.35", None), ("1.36", Danger.VERSION_SKIP), ("1.33", Danger.VERSION_SKIP), (None, Danger.VERSION_SKIP)],
)
def test_kubernetes_goes_up_by_one_minor_version(pairs: Pairs, after: str | None, danger: Danger | None) -> None:
    assert dangers(pairs.edited(of("AWS::EKS::Cluster", Version="1.34"), Version=after)) == (
        {danger} if danger else set()
    )


def test_a_cluster_whose_role_changes_is_lost(pairs: Pairs) -> None:
    [change] = pairs.edited(of("AWS::EKS::Cluster", RoleArn="a"), RoleArn="b")
    assert (change.effect, set(change.dangers)) == (Effect.REPLACED, {Danger.CLUSTER_LOSS})


@pytest.mark.parametrize(("kind", "empty"), [("AWS::EKS::AccessEntry", False), ("AWS::S3::Bucket", True)])
def test_only_what_holds_something_is_called_new_and_empty(pairs: Pairs, kind: str, empty: bool) -> None:
    before, after = (of(kind, PrincipalArn=name) for name in ("old", "new"))
    found = pairs.changes({"Old": before}, {"New": after})
    assert any("New in stack storage is new and empty" in each.reason for each in found) is empty


@pytest.mark.parametrize(
    "kind",
    [
        *("AWS::Budgets::Budget", "AWS::CloudWatch::Alarm", "AWS::Events::Rule", "AWS::SNS::Subscription"),
        "AWS::SNS::Topic",
    ],
)
def test_what_calls_somebody_goes_only_with_an_approval(pairs: Pairs, kind: str) -> None:
    old, other = of(kind, Name="gpu-node-failed"), of(kind, Name="dashboard-viewed")
    assert dangers(pairs.changes({"Old0123ABCD": old}, {})) == {Danger.LOWER_PROTECTION}
    replaced = pairs.changes({"Old0123ABCD": old}, {"New0123ABCD": other})
    assert dangers(replaced) == {Danger.LOWER_PROTECTION}, "another one calls about something else"
    assert dangers(pairs.changes({"Old0123ABCD": old}, {"New0123ABCD": old})) == set(), "it was renamed"
