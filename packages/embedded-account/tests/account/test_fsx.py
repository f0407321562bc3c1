"""Test the simulated FSx for Lustre: rules, lifecycle, interfaces, growth, data repository associations."""

from collections.abc import Callable
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("fast_clock")

LUSTRE = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250, "DataCompressionType": "LZ4"}
EVENTS = {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}, "AutoExportPolicy": {"Events": ["NEW"]}}


@pytest.fixture
def fast_clock(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ten simulated minutes in 0.12 real seconds."""
    monkeypatch.setattr(account.clock, "scale", 5000.0)


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def fsx(clients: Clients) -> Any:
    return clients("fsx")


@pytest.fixture
def network(clients: Clients) -> tuple[str, str]:
    """Create a subnet and a security group; return their ids."""
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[lustre])
    return subnet, group


def request(network: tuple[str, str], lustre: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 1200,
        "SubnetIds": [network[0]],
        "SecurityGroupIds": [network[1]],
        "LustreConfiguration": {**LUSTRE, **(lustre or {})},
        **others,
    }


@pytest.fixture
def real_minutes(account: Account, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes simulated minutes real ones, so later operations do not end during the test."""
    return lambda: monkeypatch.setattr(account.clock, "scale", 1.0)


def make_file_system(resources: ResourceModels, network: tuple[str, str], **properties: Any) -> Any:
    model = resources.create("AWS::FSx::FileSystem", request(network, **properties))
    wait_until(model.is_created, "creation")
    return model


def make_association(resources: ResourceModels, file_system: Any, path: str, prefix: str = "", **others: Any) -> Any:
    return resources.create(
        "AWS::FSx::DataRepositoryAssociation",
        {
            "FileSystemId": file_system.physical_resource_id,
            "FileSystemPath": path,
            "DataRepositoryPath": f"s3://data-bucket/{prefix or path.strip('/')}/",
            **others,
        },
    )


@pytest.fixture
def bucket(clients: Clients) -> None:
    configuration = {"LocationConstraint": "us-west-2"}
    clients("s3").create_bucket(Bucket="data-bucket", CreateBucketConfiguration=configuration)


def test_file_system_is_not_available_at_once(
    real_minutes: Callable[[], None], resources: ResourceModels, network: tuple[str, str]
) -> None:
    real_minutes()
    model = resources.create("AWS::FSx::FileSystem", request(network))
    assert not model.is_created()


def test_file_system_becomes_available_after_simulated_minutes(
    resources: ResourceModels, fsx: Any, network: tuple[str, str]
) -> None:
    model = resources.create("AWS::FSx::FileSystem", request(network, Tags=[{"Key": "team", "Value": "ml"}]))
    wait_until(model.is_created, "creation")
    shown = fsx.describe_file_systems()["FileSystems"][0]
    assert (shown["Lifecycle"], shown["FileSystemTypeVersion"], shown["StorageCapacity"]) == ("AVAILABLE", "2.15", 1200)
    assert shown["Tags"] == [{"Key": "team", "Value": "ml"}]
    assert shown["LustreConfiguration"]["DataCompressionType"] == "LZ4"
    attributes = model.attributes()
    assert attributes["DNSName"] == f"{model.physical_resource_id}.fsx.us-west-2.amazonaws.com"
    assert len(attributes["LustreMountName"]) == 8
    assert attributes["ResourceARN"].endswith(f":file-system/{model.physical_resource_id}")


def test_file_system_holds_subnet_and_group_until_it_is_gone(
    real_minutes: Callable[[], None], resources: ResourceModels, clients: Clients, network: tuple[str, str]
) -> None:
    model, ec2 = make_file_system(resources, network), clients("ec2")
    interfaces = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert {each["SubnetId"] for each in interfaces} == {network[0]}
    assert {each["Groups"][0]["GroupId"] for each in interfaces} == {network[1]}
    with RefusedWith("DependencyViolation", "has dependencies"):
        ec2.delete_subnet(SubnetId=network[0])
    real_minutes()
    resources.delete(model)
    assert not model.is_deleted()
    with RefusedWith("DependencyViolation", "has a dependent object"):
        ec2.delete_security_group(GroupId=network[1])


def test_file_system_that_is_gone_frees_its_subnet_and_group(
    resources: ResourceModels, clients: Clients, network: tuple[str, str]
) -> None:
    model, ec2 = make_file_system(resources, network), clients("ec2")
    resources.delete(model)
    wait_until(model.is_deleted, "deletion")
    ec2.delete_subnet(SubnetId=network[0])
    ec2.delete_security_group(GroupId=network[1])


def test_capacity_and_compression_change_in_place(
    resources: ResourceModels, fsx: Any, network: tuple[str, str]
) -> None:
    model = make_file_system(resources, network)
    properties = request(network, {"DataCompressionType": "NONE"}, StorageCapacity=4800, Tags=[])
    resources.update(model, properties)
    wait_until(model.is_created, "creation")
    shown = fsx.describe_file_systems()["FileSystems"][0]
    assert (shown["StorageCapacity"], shown["LustreConfiguration"]["DataCompressionType"]) == (4800, "NONE")
    assert len(shown["NetworkInterfaceIds"]) == 3
    with RefusedWith(None, "cannot update SubnetIds of AWS::FSx::FileSystem:"):
        resources.update(model, {**properties, "SubnetIds": ["subnet-1"]})


def test_capacity_cannot_shrink(resources: ResourceModels, network: tuple[str, str]) -> None:
    model = make_file_system(resources, network, StorageCapacity=4800)
    with RefusedWith("BadRequest", "can only be increased"):
        resources.update(model, request(network, StorageCapacity=2400))


def test_refused_file_system_leaves_nothing_behind(
    resources: ResourceModels, fsx: Any, network: tuple[str, str]
) -> None:
    with RefusedWith("BadRequest", "Invalid storage capacity 1300 GiB"):
        resources.create("AWS::FSx::FileSystem", request(network, StorageCapacity=1300))
    with RefusedWith("InvalidNetworkSettings", "subnet-01234567"):
        resources.create("AWS::FSx::FileSystem", request(network, SubnetIds=["subnet-01234567"]))
    with RefusedWith("InvalidNetworkSettings", "sg-01234567"):
        resources.create("AWS::FSx::FileSystem", request(network, SecurityGroupIds=["sg-01234567"]))
    assert fsx.describe_file_systems()["FileSystems"] == []


def test_metadata_configuration_implies_lustre_2_15(
    resources: ResourceModels, fsx: Any, network: tuple[str, str]
) -> None:
    properties = request(network, {"MetadataConfiguration": {"Mode": "AUTOMATIC"}})
    del properties["FileSystemTypeVersion"]
    resources.create("AWS::FSx::FileSystem", properties)
    assert fsx.describe_file_systems()["FileSystems"][0]["FileSystemTypeVersion"] == "2.15"


def test_same_token_makes_one_file_system(fsx: Any, network: tuple[str, str]) -> None:
    first = fsx.create_file_system(ClientRequestToken="t", **request(network))["FileSystem"]["FileSystemId"]
    second = fsx.create_file_system(ClientRequestToken="t", **request(network))["FileSystem"]["FileSystemId"]
    assert first == second
    with RefusedWith("IncompatibleParameterError", "ClientRequestToken"):
        fsx.create_file_system(ClientRequestToken="t", **request(network, StorageCapacity=2400))


def test_unknown_file_system_is_not_found(fsx: Any) -> None:
    with RefusedWith("FileSystemNotFound", "fs-0"):
        fsx.describe_file_systems(FileSystemIds=["fs-01234567"])


@pytest.mark.usefixtures("bucket")
def test_association_links_a_path_and_a_prefix(resources: ResourceModels, fsx: Any, network: tuple[str, str]) -> None:
    file_system = make_file_system(resources, network)
    model = make_association(resources, file_system, "/datasets", S3=EVENTS, BatchImportMetaDataOnCreate=True)
    wait_until(model.is_created, "creation")
    filters = [{"Name": "file-system-id", "Values": [file_system.physical_resource_id]}]
    shown = fsx.describe_data_repository_associations(Filters=filters)["Associations"][0]
    assert (shown["FileSystemPath"], shown["DataRepositoryPath"]) == ("/datasets", "s3://data-bucket/datasets/")
    assert (shown["S3"], shown["BatchImportMetaDataOnCreate"]) == (EVENTS, True)
    policy = {"AutoExportPolicy": {"Events": ["DELETED"]}}
    properties = {**model.properties, "S3": policy}
    resources.update(model, properties)
    wait_until(model.is_created, "creation")
    assert fsx.describe_data_repository_associations()["Associations"][0]["S3"] == policy
    resources.delete(model)
    wait_until(model.is_deleted, "deletion")
    assert fsx.describe_data_repository_associations()["Associations"] == []


@pytest.mark.usefixtures("bucket")
def test_associations_are_deleted_with_their_file_system(
    resources: ResourceModels, fsx: Any, network: tuple[str, str]
) -> None:
    file_system = make_file_system(resources, network)
    make_association(resources, file_system, "/a")
    resources.delete(file_system)
    wait_until(file_system.is_deleted, "deletion")
    assert fsx.describe_data_repository_associations()["Associations"] == []


def test_association_of_an_unready_file_system_is_refused(
    real_minutes: Callable[[], None], resources: ResourceModels, network: tuple[str, str]
) -> None:
    real_minutes()
    file_system = resources.create("AWS::FSx::FileSystem", request(network))
    with RefusedWith("BadRequest", "is CREATING: it must be AVAILABLE"):
        make_association(resources, file_system, "/a")


def test_association_to_no_bucket_fails(resources: ResourceModels, network: tuple[str, str]) -> None:
    file_system = make_file_system(resources, network)
    model = make_association(resources, file_system, "/a")
    with RefusedWith(None, "unable to access the S3 bucket data-bucket"):
        wait_until(model.is_created, "creation")


@pytest.mark.usefixtures("bucket")
def test_overlapping_association_is_refused(resources: ResourceModels, network: tuple[str, str]) -> None:
    file_system = make_file_system(resources, network)
    make_association(resources, file_system, "/a")
    with RefusedWith("BadRequest", "FileSystemPath /a/b overlaps /a"):
        make_association(resources, file_system, "/a/b", "x")


def test_association_of_a_file_system_with_backups_is_refused(
    resources: ResourceModels, network: tuple[str, str]
) -> None:
    file_system = make_file_system(resources, network, lustre={"AutomaticBackupRetentionDays": 7})
    with RefusedWith("BadRequest", "automatic backups"):
        make_association(resources, file_system, "/a")


def test_logging_without_a_destination_makes_a_log_group(
    resources: ResourceModels, clients: Clients, network: tuple[str, str]
) -> None:
    make_file_system(resources, network, lustre={"LogConfiguration": {"Level": "WARN_ERROR"}})
    groups = [group["logGroupName"] for group in clients("logs").describe_log_groups()["logGroups"]]
    assert groups == ["/aws/fsx/lustre"]
