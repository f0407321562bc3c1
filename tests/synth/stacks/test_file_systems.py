"""Promises of the stacks about file systems that CloudFormation does not own, and about EFA."""

from typing import Any

import pytest

from config import EksEnvironment, load
from config.estimates.costs import estimate
from config.model import ExistingFileSystem, Fsx
from embedded_account.services.iam.policies import PolicyDecision, evaluate
from ops.review import assembly as reviewed
from ops.review.cost import bill
from tests.synth.support.kubernetes_objects import Object, id_of, needs, objects, release_id
from tests.synth.support.synthesis import Assembly, synthesise

TAG = "ray-on-hyperpod:environment"
GUARD = "Custom::FileSystemGuard"
EXISTING = ExistingFileSystem(id="fs-0fedcba9876543210", mount_name="zyxwvuts")


def small_with(**fsx: Any) -> EksEnvironment:
    return load("small").model_copy(update={"fsx": Fsx(**fsx)})


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    environment = small_with(provisioning="dynamic", throughput_mbps_per_tib=125)
    return synthesise(environment, tmp_path_factory.mktemp("dynamic"), validated=True)


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesise(small_with(existing=EXISTING), tmp_path_factory.mktemp("existing"))


@pytest.fixture(scope="module")
def efa(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    environment = small_with(efa=True, capacity_gib=4800, throughput_mbps_per_tib=1000)
    return synthesise(environment, tmp_path_factory.mktemp("efa"))


def driver_policy(assembly: Assembly) -> Object:
    [policy] = assembly.templates["platform"].only("AWS::IAM::Role")["Policies"]
    return dict(policy["PolicyDocument"])


@pytest.mark.parametrize("fixture", ["dynamic", "existing"])
def test_storage_stack_has_no_file_system_of_its_own(fixture: str, request: pytest.FixtureRequest) -> None:
    storage = request.getfixturevalue(fixture).templates["storage"]
    assert not storage.all("AWS::FSx::FileSystem")
    assert len(storage.all("AWS::S3::Bucket")) == 2


def test_existing_file_system_is_mounted_and_touched_by_nothing_else(existing: Assembly) -> None:
    ray = existing.templates["ray"]
    [volume, _] = objects(ray)[id_of(ray, "PersistentVolumeClaim", "fsx-claim")]
    assert volume["spec"]["csi"]["volumeHandle"] == EXISTING.id
    assert not ray.all(GUARD)
    assert [s["Action"] for s in driver_policy(existing)["Statement"]] == ["fsx:DescribeFileSystems"]


def test_class_names_the_nodes_subnet_and_the_shared_security_group(dynamic: Assembly) -> None:
    platform = dynamic.templates["platform"]
    id = id_of(platform, "StorageClass", "fsx-sc")
    [item] = objects(platform)[id]
    for parameter, resource_type in (("subnetId", "AWS::EC2::Subnet"), ("securityGroupIds", "AWS::EC2::SecurityGroup")):
        export = item["parameters"][parameter].split("'")[3]
        assert dynamic.imported({"Fn::ImportValue": export})[1]["Type"] == resource_type
    assert needs(platform, id, release_id(platform, "aws-fsx-csi-driver"))


def test_claim_is_deleted_first_then_the_guard_waits_then_the_driver_is_deleted(dynamic: Assembly) -> None:
    ray = dynamic.templates["ray"]
    [guard] = ray.all(GUARD)
    claim = id_of(ray, "PersistentVolumeClaim", "fsx-claim")
    assert needs(ray, claim, guard)
    assert needs(ray, id_of(ray, "RayCluster", "rayml"), claim)
    artifacts = dynamic.manifest["artifacts"]
    assert "rayhp-small-platform" in artifacts["rayhp-small-ray"]["dependencies"]


def test_guard_looks_for_the_tag_that_the_driver_sets(dynamic: Assembly) -> None:
    [guard] = dynamic.templates["ray"].properties(GUARD)
    del guard["ServiceToken"]
    assert guard == {"TagKey": TAG, "TagValue": "rayhp-small", "ReclaimPolicy": "Delete"}
    release = dynamic.templates["platform"].body["Resources"][
        release_id(dynamic.templates["platform"], "aws-fsx-csi-driver")
    ]
    assert f'"extraTags":{{"{TAG}":"rayhp-small"}}' in release["Properties"]["Values"]


def test_guards_function_only_reads(dynamic: Assembly) -> None:
    ray = dynamic.templates["ray"]
    role_of = {
        function["Handler"]: function["Role"]["Fn::GetAtt"][0]
        for function in ray.properties("AWS::Lambda::Function")
        if str(function.get("Handler")).startswith("index.")
    }
    actions = {
        handler: [
            statement["Action"]
            for policy in ray.properties("AWS::IAM::Policy")
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]
        for handler, role in role_of.items()
        if handler in ("index.on_event", "index.is_complete")
    }
    assert actions == {"index.on_event": [], "index.is_complete": ["fsx:DescribeFileSystems"]}


def test_static_environment_has_no_guard(dev: Assembly) -> None:
    assert not dev.templates["ray"].all(GUARD)


ANY = "arn:aws:fsx:us-west-2:111122223333:file-system/fs-0123456789abcdef0"
OWN, OTHER = "rayhp-small", "rayhp-prod"


@pytest.mark.parametrize("action", ["DeleteFileSystem", "UpdateFileSystem"])
def test_driver_deletes_and_grows_its_own_file_systems_only(dynamic: Assembly, action: str) -> None:
    def decide(tags: dict[str, str]) -> PolicyDecision:
        context = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
        return evaluate([driver_policy(dynamic)], f"fsx:{action}", ANY, context)

    assert decide({TAG: OWN}) is PolicyDecision.ALLOW
    assert decide({TAG: OTHER}) is PolicyDecision.IMPLICIT_DENY
    assert decide({}) is PolicyDecision.IMPLICIT_DENY


@pytest.mark.parametrize("action", ["CreateFileSystem", "TagResource"])
def test_driver_makes_file_systems_with_the_environments_tag_only(dynamic: Assembly, action: str) -> None:
    def decide(tags: dict[str, str]) -> PolicyDecision:
        context = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        return evaluate([driver_policy(dynamic)], f"fsx:{action}", ANY, context)

    assert decide({TAG: OWN, "CSIVolumeName": "pvc-1"}) is PolicyDecision.ALLOW
    assert decide({TAG: OTHER, "CSIVolumeName": "pvc-1"}) is PolicyDecision.IMPLICIT_DENY
    assert decide({"CSIVolumeName": "pvc-1"}) is PolicyDecision.IMPLICIT_DENY


def test_driver_has_no_other_rights(dynamic: Assembly) -> None:
    actions = {
        action
        for statement in driver_policy(dynamic)["Statement"]
        for action in (statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]])
    }
    assert actions == {
        "fsx:CreateFileSystem",
        "fsx:DeleteFileSystem",
        "fsx:DescribeFileSystems",
        "fsx:TagResource",
        "fsx:UpdateFileSystem",
        "iam:CreateServiceLinkedRole",
    }


def test_file_system_with_efa_has_automatic_metadata(efa: Assembly) -> None:
    settings = efa.templates["storage"].only("AWS::FSx::FileSystem")["LustreConfiguration"]
    assert settings["EfaEnabled"] is True
    assert settings["MetadataConfiguration"] == {"Mode": "AUTOMATIC"}


def test_nodes_learn_of_efa_by_a_file_beside_their_scripts(efa: Assembly, dev: Assembly) -> None:
    (with_efa, without) = (each.templates["hyperpod"].only("Custom::CDKBucketDeployment") for each in (efa, dev))
    assert len(with_efa["SourceObjectKeys"]) == 2
    assert len(without["SourceObjectKeys"]) == 1
    assert with_efa["DestinationBucketKeyPrefix"] != without["DestinationBucketKeyPrefix"]
    asset = efa.directory / f"asset.{with_efa['SourceObjectKeys'][1].removesuffix('.zip')}"
    assert (asset / "settings").read_text() == "FSX_EFA=true\n"


def test_the_review_prices_the_file_system_that_the_driver_makes(dynamic: Assembly) -> None:
    expected = sum(line.usd_per_hour or 0 for line in estimate(dynamic.environment))
    assert bill(reviewed.Assembly(dynamic.directory)).usd_per_hour == pytest.approx(expected)
