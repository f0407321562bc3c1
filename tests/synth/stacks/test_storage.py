"""Promises of the storage stack."""

from datetime import timedelta

import pytest

from config import available, load, naming
from ops.jobs.bucket import FRESH
from tests.synth.support.synthesis import Assemblies, Assembly

DATA_TYPES = (
    "AWS::FSx::FileSystem",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::S3::Bucket",
    "AWS::ECR::Repository",
)


@pytest.mark.parametrize("name", [name for name in available() if load(name).fsx.owned])
def test_file_system_is_what_the_environment_says(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    settings = synthesised.environment.fsx
    file_system = synthesised.templates["storage"].only("AWS::FSx::FileSystem")
    assert file_system["FileSystemType"] == "LUSTRE"
    assert file_system["FileSystemTypeVersion"] == "2.15"
    assert file_system["StorageCapacity"] == settings.capacity_gib
    assert file_system["LustreConfiguration"] == {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": settings.throughput_mbps_per_tib,
        "DataCompressionType": settings.compression,
    }


def test_file_system_lies_where_the_nodes_are_and_in_their_security_group(dev: Assembly) -> None:
    file_system = dev.templates["storage"].only("AWS::FSx::FileSystem")
    [subnet_id] = file_system["SubnetIds"]
    part, subnet = dev.imported(subnet_id)
    assert part == "network"
    assert subnet["Properties"]["CidrBlock"] == str(dev.environment.network.node_subnet(0))
    assert subnet["Properties"]["AvailabilityZoneId"] == dev.environment.network.zones[0]
    [group_id] = file_system["SecurityGroupIds"]
    assert dev.imported(group_id)[1]["Type"] == "AWS::EC2::SecurityGroup"


def test_data_repositories_mirror_both_ways_one_request_at_a_time(dev: Assembly, prod: Assembly) -> None:
    assert not dev.templates["storage"].all("AWS::FSx::DataRepositoryAssociation")
    associations = prod.templates["storage"].all("AWS::FSx::DataRepositoryAssociation")
    wanted = prod.environment.fsx.data_repositories
    assert [a["Properties"]["FileSystemPath"] for a in associations.values()] == [r.path for r in wanted]
    events = {"Events": ["NEW", "CHANGED", "DELETED"]}
    before: list[str] = []
    for id, association in associations.items():
        assert association["Properties"]["S3"] == {"AutoExportPolicy": events, "AutoImportPolicy": events}
        assert set(before[-1:]) <= set(association.get("DependsOn", []))
        before.append(id)


@pytest.mark.parametrize("name", available())
def test_buckets_are_private_encrypted_versioned_and_tls_only(assembly: Assemblies, name: str) -> None:
    storage = assembly(name).templates["storage"]
    buckets = storage.all("AWS::S3::Bucket")
    assert len(buckets) == 2
    for bucket in buckets.values():
        properties = bucket["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    closed = {
        policy["Bucket"]["Ref"]
        for policy in storage.properties("AWS::S3::BucketPolicy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert closed == set(buckets)


def test_superseded_versions_expire_after_a_month_and_pruned_checkpoints_after_a_day(dev: Assembly) -> None:
    buckets = {bucket["BucketName"]: bucket for bucket in dev.templates["storage"].properties("AWS::S3::Bucket")}
    kept = {
        name: {
            rule.get("Prefix", ""): (
                rule["NoncurrentVersionExpiration"]["NoncurrentDays"],
                rule.get("ExpiredObjectDeleteMarker", False),
            )
            for rule in bucket["LifecycleConfiguration"]["Rules"]
            if "NoncurrentVersionExpiration" in rule
        }
        for name, bucket in buckets.items()
    }
    assert kept[naming.data_bucket(dev.environment)] == {"": (30, False), "ray/": (1, True)}
    assert kept[naming.lifecycle_bucket(dev.environment)] == {"": (30, False)}


def test_working_directories_of_jobs_and_nothing_else_expire(dev: Assembly) -> None:
    expiring = {
        (bucket["BucketName"], rule.get("Prefix", ""), rule["ExpirationInDays"])
        for bucket in dev.templates["storage"].properties("AWS::S3::Bucket")
        for rule in bucket["LifecycleConfiguration"]["Rules"]
        if "ExpirationInDays" in rule
    }
    assert expiring == {(naming.data_bucket(dev.environment), "ray/packages/", 90)}
    assert timedelta(days=90) >= 3 * FRESH, "each run must have its working directory for months"


def test_bucket_names_are_the_environments_and_sagemaker_may_read_the_scripts(dev: Assembly) -> None:
    names = {bucket["BucketName"] for bucket in dev.templates["storage"].properties("AWS::S3::Bucket")}
    assert names == {naming.data_bucket(dev.environment), naming.lifecycle_bucket(dev.environment)}
    assert naming.lifecycle_bucket(dev.environment).startswith("sagemaker-")


def test_a_tag_of_the_image_repository_never_moves_but_for_the_build_cache(dev: Assembly) -> None:
    repository = dev.templates["storage"].only("AWS::ECR::Repository")
    assert repository["ImageTagMutability"] == "IMMUTABLE_WITH_EXCLUSION"
    assert repository["ImageTagMutabilityExclusionFilters"] == [
        {"ImageTagMutabilityExclusionFilterType": "WILDCARD", "ImageTagMutabilityExclusionFilterValue": "cache*"}
    ]
    assert repository["ImageScanningConfiguration"] == {"ScanOnPush": True}


def test_nothing_that_costs_money_survives_an_unprotected_stack(dev: Assembly) -> None:
    storage = dev.templates["storage"]
    for resource_type in DATA_TYPES:
        for resource in storage.all(resource_type).values():
            assert resource["DeletionPolicy"] == "Delete"
    assert storage.only("AWS::ECR::Repository")["EmptyOnDelete"] is True
    emptied = {resource["BucketName"]["Ref"] for resource in storage.properties("Custom::S3AutoDeleteObjects")}
    assert emptied == set(storage.all("AWS::S3::Bucket"))


def test_protected_data_survives_its_stack_and_its_replacement(prod: Assembly) -> None:
    storage = prod.templates["storage"]
    for resource_type in DATA_TYPES:
        assert storage.all(resource_type)
        for resource in storage.all(resource_type).values():
            # "Except on create": a failed first deployment can be retried with the same names.
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
            assert resource["UpdateReplacePolicy"] == "Retain"
    assert not storage.all("Custom::S3AutoDeleteObjects")
    assert not storage.only("AWS::ECR::Repository").get("EmptyOnDelete")
