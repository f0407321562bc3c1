"""Test that the inventory is complete, names an owner for each resource, and is empty after all are deleted."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import requests

from embedded_account.context import Account
from embedded_account.inventory import report as inventory
from embedded_account.inventory.report import InventoryItem, collect
from embedded_account.inventory.sources import InventoryResource
from embedded_account.testing.clients import Clients
from embedded_account.testing.waiting import PATIENCE_SECONDS, wait_until

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)
POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}]}
)
NETWORK = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
    "Topic": {"Type": "AWS::SNS::Topic"},
}


@pytest.fixture(autouse=True)
def _no_stacks_of_other_tests(account: Account) -> None:
    account.stacks.clear()


def owners(account: Account) -> dict[str, str]:
    """Return the owner by resource type, for tests with one resource of each type."""
    return {item.type: item.owner for item in collect(account)}


def of_type(account: Account, resource_type: str) -> list[InventoryItem]:
    return [item for item in collect(account) if item.type == resource_type]


def deploy(clients: Clients, name: str, resources: dict[str, Any]) -> None:
    cloudformation = clients("cloudformation")
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
    wait_for(cloudformation, name, "CREATE_COMPLETE")


def wait_for(cloudformation: Any, name: str, status: str) -> None:
    def described() -> Any:
        return cloudformation.describe_stacks(StackName=name)["Stacks"][0]

    wait_until(lambda: not described()["StackStatus"].endswith("_IN_PROGRESS"), f"end of the operation on stack {name}")
    assert described()["StackStatus"] == status, described().get("StackStatusReason")


def test_new_account_is_empty(account: Account) -> None:
    assert collect(account) == []


def make_network(clients: Clients) -> Callable[[], None]:
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    interface = ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    endpoint = ec2.create_vpc_endpoint(VpcId=vpc, ServiceName="com.amazonaws.us-west-2.s3")
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    data = {"ImageId": "ami-12345678"}
    template = ec2.create_launch_template(LaunchTemplateName="t", LaunchTemplateData=data)

    def delete() -> None:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplate"]["LaunchTemplateId"])
        ec2.delete_internet_gateway(InternetGatewayId=gateway)
        ec2.release_address(AllocationId=address)
        ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpoint"]["VpcEndpointId"]])
        ec2.delete_route_table(RouteTableId=table)
        ec2.delete_network_interface(NetworkInterfaceId=interface)
        ec2.delete_security_group(GroupId=group)
        ec2.delete_subnet(SubnetId=subnet)
        ec2.delete_vpc(VpcId=vpc)

    return delete


def make_storage(clients: Clients) -> Callable[[], None]:
    s3, ecr, logs, ssm = clients("s3"), clients("ecr"), clients("logs"), clients("ssm")
    s3.create_bucket(Bucket="data-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    ecr.create_repository(repositoryName="ray")
    logs.create_log_group(logGroupName="/aws/lambda/f")
    ssm.put_parameter(Name="/ml/cluster", Value="v", Type="String")
    ssm.get_parameters_by_path(Path="/aws/service/global-infrastructure/regions")

    def delete() -> None:
        s3.delete_bucket(Bucket="data-bucket")
        ecr.delete_repository(repositoryName="ray")
        logs.delete_log_group(logGroupName="/aws/lambda/f")
        ssm.delete_parameter(Name="/ml/cluster")

    return delete


def make_identities(clients: Clients) -> Callable[[], None]:
    iam = clients("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
    policy = iam.create_policy(PolicyName="p", PolicyDocument=POLICY)["Policy"]["Arn"]
    iam.create_instance_profile(InstanceProfileName="i")
    provider = iam.create_open_id_connect_provider(Url="https://oidc.example.org", ThumbprintList=["a" * 40])

    def delete() -> None:
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider["OpenIDConnectProviderArn"])
        iam.delete_instance_profile(InstanceProfileName="i")
        iam.delete_policy(PolicyArn=policy)
        iam.delete_role(RoleName="r")

    return delete


def make_notifications(clients: Clients) -> Callable[[], None]:
    sns, events, sqs = clients("sns"), clients("events"), clients("sqs")
    topic = sns.create_topic(Name="t")["TopicArn"]
    subscribed = sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="a@example.org", ReturnSubscriptionArn=True)
    events.put_rule(Name="rule", EventPattern='{"source": ["aws.sagemaker"]}')
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    clients("cloudwatch").put_metric_alarm(
        AlarmName="a",
        ComparisonOperator="LessThanThreshold",
        EvaluationPeriods=1,
        MetricName="m",
        Namespace="n",
        Period=60,
        Statistic="Sum",
        Threshold=1,
    )

    clients("cloudwatch").put_dashboard(DashboardName="d", DashboardBody='{"widgets": []}')

    def delete() -> None:
        clients("cloudwatch").delete_dashboards(DashboardNames=["d"])
        clients("cloudwatch").delete_alarms(AlarmNames=["a"])
        sqs.delete_queue(QueueUrl=queue)
        events.delete_rule(Name="rule")
        sns.unsubscribe(SubscriptionArn=subscribed["SubscriptionArn"])
        sns.delete_topic(TopicArn=topic)

    return delete


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (
            make_network,
            {
                "AWS::EC2::EIP",
                "AWS::EC2::InternetGateway",
                "AWS::EC2::LaunchTemplate",
                "AWS::EC2::NetworkAcl",
                "AWS::EC2::NetworkInterface",
                "AWS::EC2::RouteTable",
                "AWS::EC2::SecurityGroup",
                "AWS::EC2::Subnet",
                "AWS::EC2::VPC",
                "AWS::EC2::VPCEndpoint",
            },
        ),
        (
            make_storage,
            {"AWS::ECR::Repository", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::SSM::Parameter"},
        ),
        (
            make_identities,
            {"AWS::IAM::InstanceProfile", "AWS::IAM::ManagedPolicy", "AWS::IAM::OIDCProvider", "AWS::IAM::Role"},
        ),
        (
            make_notifications,
            {
                "AWS::CloudWatch::Alarm",
                "AWS::CloudWatch::Dashboard",
                "AWS::Events::Rule",
                "AWS::SNS::Subscription",
                "AWS::SNS::Topic",
                "sqs:queue",
            },
        ),
    ],
)
def test_resources_without_a_stack_belong_to_nobody_until_deleted(
    account: Account, clients: Clients, make: Callable[[Clients], Callable[[], None]], types: set[str]
) -> None:
    delete = make(clients)
    items = collect(account)
    assert {item.type for item in items} == types
    assert {item.owner for item in items} == {"nobody"}
    assert len({item.arn for item in items}) == len(items)
    delete()
    assert collect(account) == []


def test_resource_of_another_region_is_found(account: Account, clients: Clients) -> None:
    keys = account.keys
    session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name="eu-west-1")
    session.client("sns", endpoint_url=account.endpoint).create_topic(Name="elsewhere")
    session.client("ec2", endpoint_url=account.endpoint).describe_vpcs()
    assert clients("sns").list_topics()["Topics"] == []
    assert [item.arn.split(":")[3] for item in collect(account)] == ["eu-west-1"]


def test_stack_owns_its_resources_and_those_created_with_them(account: Account, clients: Clients) -> None:
    deploy(clients, "network", NETWORK)
    assert owners(account) == {
        "AWS::CloudFormation::Stack": "network",
        "AWS::EC2::NetworkAcl": "network",
        "AWS::EC2::RouteTable": "network",
        "AWS::EC2::SecurityGroup": "network",
        "AWS::EC2::VPC": "network",
        "AWS::SNS::Topic": "network",
    }
    clients("cloudformation").delete_stack(StackName="network")
    wait_until(lambda: collect(account) == [], "nothing is left")


def test_bootstrap_owns_its_bucket_and_its_object_versions_are_counted(account: Account, clients: Clients) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "cdk-assets"}}
    deploy(clients, "CDKToolkit", {"StagingBucket": bucket})
    clients("s3").put_object(Bucket="cdk-assets", Key="a.zip", Body=b"1")
    assert set(owners(account).values()) == {"bootstrap"}
    assert of_type(account, "AWS::S3::Bucket")[0].note == "1 object versions"


def test_retained_resource_belongs_to_nobody_after_its_stack(account: Account, clients: Clients) -> None:
    deploy(clients, "storage", {"Topic": {"Type": "AWS::SNS::Topic", "DeletionPolicy": "Retain"}})
    clients("cloudformation").delete_stack(StackName="storage")
    wait_until(lambda: not of_type(account, "AWS::CloudFormation::Stack"), "end of the stack")
    assert owners(account) == {"AWS::SNS::Topic": "nobody"}


def test_custom_resource_owns_the_cluster_that_it_created(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc"
    cluster = InventoryResource("AWS::SageMaker::Cluster", "ml-cluster", arn)
    namesake = InventoryResource(
        "AWS::ECR::Repository", "ml-cluster", "arn:aws:ecr:us-west-2:111122223333:repository/ml-cluster"
    )
    made = SimpleNamespace(type="Custom::HyperPodCluster", physical_id="ml-cluster")
    monkeypatch.setattr(inventory, "found_in_account", lambda: iter([cluster, namesake]))
    monkeypatch.setattr(account.stacks, "owners", lambda: iter([(SimpleNamespace(name="hyperpod"), made)]))
    assert owners(account) == {"AWS::SageMaker::Cluster": "hyperpod", "AWS::ECR::Repository": "nobody"}


def test_key_pending_deletion_belongs_to_kms(account: Account, clients: Clients) -> None:
    key = clients("kms").create_key()["KeyMetadata"]["KeyId"]
    assert of_type(account, "AWS::KMS::Key")[0].owner == "nobody"
    clients("kms").schedule_key_deletion(KeyId=key)
    item = of_type(account, "AWS::KMS::Key")[0]
    assert (item.owner, item.note) == ("background:kms", "pending deletion")


def test_interface_of_a_service_belongs_to_its_creator(account: Account, clients: Clients) -> None:
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    topic = clients("sns").create_topic(Name="maker")["TopicArn"]
    interface = account.background.network_interface(
        maker_arn=topic, description="of the maker", subnet_id=subnet, security_group_ids=[]
    )
    item = of_type(account, "AWS::EC2::NetworkInterface")[0]
    assert (item.id, item.owner, item.note) == (interface.id, f"background:{topic}", "of the maker")


def test_log_group_shows_that_its_creator_is_gone(account: Account) -> None:
    maker = "arn:aws:lambda:us-west-2:111122223333:function:gone"
    account.background.log_group(maker_arn=maker, name="/aws/lambda/gone")
    item = of_type(account, "AWS::Logs::LogGroup")[0]
    assert (item.owner, item.note) == (f"background:{maker}", "its creator is gone")


def test_route_serves_the_inventory(account: Account, clients: Clients) -> None:
    clients("sns").create_topic(Name="t")
    listed = requests.get(
        f"{account.endpoint}/_rehearsal/inventory", headers=account.keys.control_headers, timeout=PATIENCE_SECONDS
    ).json()
    assert [(item["service"], item["owner"]) for item in listed] == [("sns", "nobody")]
