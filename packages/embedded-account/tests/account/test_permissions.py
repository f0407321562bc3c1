"""Test that requests are refused unless the caller's policies allow them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.testing.clients import ACCOUNT_ID, REGION, Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.stacks import StackDeployer

HERE = f"{REGION}:{ACCOUNT_ID}"
BOUNDARY = f"arn:aws:iam::{ACCOUNT_ID}:policy/boundary"
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT_ID}:root"}, "Action": "kms:*", "Resource": "*"}
    ],
}
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"


def statement(action: str | list[str], resource: str | list[str] = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def trust(**more: Any) -> str:
    return policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": ACCOUNT_ID}, **more})


class People:
    """Roles of people in the account."""

    def __init__(self, account: Account, clients: Clients, session: Any) -> None:
        self.account = account
        self._clients = clients
        self._session = session

    def make(self, name: str, *statements: Mapping[str, Any], trust: str = trust(), **more: Any) -> Clients:
        """Create a role with these statements; return clients with its credentials."""
        iam = self._clients("iam")
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, **more)["Role"]["Arn"]
        if statements:
            iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=policy(*statements))
        return self.assume(arn, self._clients)

    def assume(self, arn: str, clients: Clients) -> Clients:
        """Return clients with a session of the role, which the holder of `clients` assumes."""
        return self.holding(clients("sts").assume_role(RoleArn=arn, RoleSessionName="ann")["Credentials"])

    def holding(self, keys: Mapping[str, Any]) -> Clients:
        """Return clients with these credentials."""
        own = {
            "aws_access_key_id": keys["AccessKeyId"],
            "aws_secret_access_key": keys["SecretAccessKey"],
            "aws_session_token": keys.get("SessionToken"),
        }
        return lambda service: self._session.client(service, endpoint_url=self.account.endpoint, **own)

    def needed(self, principal: str) -> list[tuple[str, str]]:
        """Return the recorded permissions of a role, in order."""
        return [
            (entry["action"], entry["resource"])
            for entry in self.account.journal.entries(kind="iam")
            if entry["principal"].endswith(f"role/{principal}")
        ]


@pytest.fixture
def people(account: Account, clients: Clients, aws_session: Any) -> People:
    return People(account, clients, aws_session)


def refused(call: Any, *words: str, code: str = "AccessDenied", **arguments: Any) -> None:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    assert error.value.response["Error"]["Code"] == code
    for word in words:
        assert word in str(error.value)


def test_only_the_named_resources_are_allowed(people: People, clients: Clients) -> None:
    for bucket in ("one", "other"):
        clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        clients("s3").put_object(Bucket=bucket, Key="a/b c", Body=b"x")
    s3 = people.make("reader", statement("s3:GetObject", "arn:aws:s3:::one/*"))("s3")
    assert s3.get_object(Bucket="one", Key="a/b c")["Body"].read() == b"x"
    refused(
        s3.get_object,
        "assumed-role/reader/ann",
        "s3:GetObject",
        "arn:aws:s3:::other/a/b c",
        Bucket="other",
        Key="a/b c",
    )
    refused(s3.put_object, "s3:PutObject", Bucket="one", Key="a/b c", Body=b"y")


CALLS: list[tuple[str, str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "budgets",
        "describe_budget",
        {"AccountId": ACCOUNT_ID, "BudgetName": "own"},
        [("budgets:ViewBudget", f"arn:aws:budgets::{ACCOUNT_ID}:budget/own")],
    ),
    (
        "budgets",
        "delete_budget",
        {"AccountId": ACCOUNT_ID, "BudgetName": "own"},
        [("budgets:ModifyBudget", f"arn:aws:budgets::{ACCOUNT_ID}:budget/own")],
    ),
    ("ssm", "get_parameter", {"Name": "/a/b"}, [("ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/a/b")]),
    ("eks", "describe_cluster", {"name": "c"}, [("eks:DescribeCluster", f"arn:aws:eks:{HERE}:cluster/c")]),
    (
        "eks",
        "describe_access_entry",
        {"clusterName": "c", "principalArn": "arn:aws:iam::111122223333:role/path/r"},
        [("eks:DescribeAccessEntry", f"arn:aws:eks:{HERE}:access-entry/c/role/000000000000/name/00000000")],
    ),
    ("ec2", "describe_vpcs", {}, [("ec2:DescribeVpcs", "*")]),
    (
        "ec2",
        "delete_snapshot",
        {"SnapshotId": "snap-1"},
        [("ec2:DeleteSnapshot", f"arn:aws:ec2:{REGION}::snapshot/snap-1")],
    ),
    ("iam", "list_roles", {}, [("iam:ListRoles", "*")]),
    ("cloudwatch", "list_dashboards", {}, [("cloudwatch:ListDashboards", "*")]),
    (
        "cloudwatch",
        "delete_dashboards",
        {"DashboardNames": ["a"]},
        [("cloudwatch:DeleteDashboards", "arn:aws:cloudwatch::111122223333:dashboard/a")],
    ),
    ("service-quotas", "list_service_quotas", {"ServiceCode": "ec2"}, [("servicequotas:ListServiceQuotas", "*")]),
    (
        "ecr",
        "describe_repositories",
        {"repositoryNames": ["aa", "bb"]},
        [("ecr:DescribeRepositories", f"arn:aws:ecr:{HERE}:repository/{name}") for name in ("aa", "bb")],
    ),
    (
        "ecr",
        "create_repository",
        {"repositoryName": "team/aa"},
        [("ecr:CreateRepository", f"arn:aws:ecr:{HERE}:repository/team/aa")],
    ),
    ("ecr", "describe_repositories", {}, [("ecr:DescribeRepositories", f"arn:aws:ecr:{HERE}:repository/*")]),
    (
        "cloudformation",
        "describe_stacks",
        {"StackName": "s"},
        [("cloudformation:DescribeStacks", f"arn:aws:cloudformation:{HERE}:stack/s/*")],
    ),
    (
        "cloudformation",
        "describe_stacks",
        {},
        [("cloudformation:DescribeStacks", f"arn:aws:cloudformation:{HERE}:stack/*/*")],
    ),
    (
        "cloudformation",
        "delete_stack",
        {"StackName": "s", "RoleARN": f"arn:aws:iam::{ACCOUNT_ID}:role/cfn"},
        [
            ("cloudformation:DeleteStack", f"arn:aws:cloudformation:{HERE}:stack/s/*"),
            ("iam:PassRole", f"arn:aws:iam::{ACCOUNT_ID}:role/cfn"),
        ],
    ),
    (
        "fsx",
        "create_data_repository_task",
        {"FileSystemId": "fs-0123456789", "Type": "EXPORT_TO_REPOSITORY", "Report": {"Enabled": False}},
        [
            ("fsx:CreateDataRepositoryTask", f"arn:aws:fsx:{HERE}:{each}")
            for each in ("file-system/fs-0123456789", "task/*")
        ],
    ),
    ("s3", "head_bucket", {"Bucket": "b"}, [("s3:ListBucket", "arn:aws:s3:::b")]),
    ("s3", "get_bucket_encryption", {"Bucket": "b"}, [("s3:GetEncryptionConfiguration", "arn:aws:s3:::b")]),
    ("s3", "list_objects_v2", {"Bucket": "b", "Prefix": "x/"}, [("s3:ListBucket", "arn:aws:s3:::b")]),
    (
        "s3",
        "upload_part",
        {"Bucket": "b", "Key": "k", "UploadId": "u", "PartNumber": 1},
        [("s3:PutObject", "arn:aws:s3:::b/k")],
    ),
    (
        "logs",
        "filter_log_events",
        {"logGroupName": "/a/b"},
        [("logs:FilterLogEvents", f"arn:aws:logs:{HERE}:log-group:/a/b:log-stream:")],
    ),
    (
        "s3",
        "copy_object",
        {"Bucket": "b", "Key": "k", "CopySource": {"Bucket": "from", "Key": "x y"}, "Tagging": "a=b"},
        [
            ("s3:PutObject", "arn:aws:s3:::b/k"),
            ("s3:GetObject", "arn:aws:s3:::from/x y"),
            ("s3:PutObjectTagging", "arn:aws:s3:::b/k"),
        ],
    ),
    ("s3", "list_object_versions", {"Bucket": "b"}, [("s3:ListBucketVersions", "arn:aws:s3:::b")]),
    ("s3", "get_public_access_block", {"Bucket": "b"}, [("s3:GetBucketPublicAccessBlock", "arn:aws:s3:::b")]),
    (
        "lambda",
        "invoke",
        {"FunctionName": f"arn:aws:lambda:{HERE}:function:f"},
        [("lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:f")],
    ),
    ("lambda", "get_function", {"FunctionName": "f"}, [("lambda:GetFunction", f"arn:aws:lambda:{HERE}:function:f")]),
    (
        "stepfunctions",
        "start_execution",
        {"stateMachineArn": f"arn:aws:states:{HERE}:stateMachine:m"},
        [("states:StartExecution", f"arn:aws:states:{HERE}:stateMachine:m")],
    ),
    ("sts", "get_caller_identity", {}, []),
]


def test_every_protocols_request_is_understood(people: People) -> None:
    everybody = people.make("everybody", statement("*"))
    for service, operation, arguments, needed in CALLS:
        before = len(people.needed("everybody"))
        with suppress(ClientError):  # most of these resources do not exist
            getattr(everybody(service), operation)(**arguments)
        assert people.needed("everybody")[before:] == needed, operation


def test_operation_without_a_row_is_refused_to_whoever_may_use_single_resources(people: People) -> None:
    arn = f"arn:aws:sns:{HERE}:mine"
    refused(people.make("some", statement("sns:*", arn))("sns").get_topic_attributes, TopicArn=arn, code="AccessDenied")
    with pytest.raises(ClientError, match="NotFound"):
        people.make("any", statement("sns:GetTopicAttributes"))("sns").get_topic_attributes(TopicArn=arn)


def test_boundary_and_denies_are_honoured(people: People, clients: Clients) -> None:
    iam = clients("iam")
    iam.create_policy(PolicyName="boundary", PolicyDocument=policy(statement("ec2:DescribeVpcs")))
    ec2 = people.make("bounded", statement("ec2:*"), PermissionsBoundary=BOUNDARY)("ec2")
    ec2.describe_vpcs()
    refused(ec2.describe_subnets, "ec2:DescribeSubnets", code="UnauthorizedOperation")
    denied = people.make("denied", statement("ec2:*"), statement("ec2:DescribeVpcs") | {"Effect": "Deny"})("ec2")
    denied.describe_subnets()
    refused(denied.describe_vpcs, "with an explicit deny", code="UnauthorizedOperation")


def test_conditions_on_tags_are_evaluated(people: People, clients: Clients) -> None:
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "team", "Value": "ml"}]}]
    own, other = (
        clients("ec2").create_volume(AvailabilityZone=f"{REGION}a", Size=1, **more)["VolumeId"]
        for more in ({"TagSpecifications": tags}, {})
    )
    condition = {"StringEquals": {"aws:ResourceTag/team": "ml"}}
    volumes = f"arn:aws:ec2:{HERE}:volume/*"
    ec2 = people.make("cleaner", statement("ec2:DeleteVolume", volumes, Condition=condition))("ec2")
    refused(ec2.delete_volume, other, VolumeId=other, code="UnauthorizedOperation")
    ec2.delete_volume(VolumeId=own)


def test_the_tag_of_the_stack_is_evaluated(people: People, clients: Clients, stacks: StackDeployer) -> None:
    """CloudFormation sets it on all that it creates."""
    template = {"Resources": {"Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": KEY_POLICY}}}}
    assert stacks.deploy("own", template) == "CREATE_COMPLETE"
    [made] = clients("cloudformation").list_stack_resources(StackName="own")["StackResourceSummaries"]
    other = clients("kms").create_key()["KeyMetadata"]["KeyId"]
    condition = {"StringEquals": {"aws:ResourceTag/aws:cloudformation:stack-name": "own"}}
    keys = people.make("keys", statement("kms:DescribeKey", f"arn:aws:kms:{HERE}:key/*", Condition=condition))("kms")
    assert keys.describe_key(KeyId=made["PhysicalResourceId"])["KeyMetadata"]["Enabled"]
    refused(keys.describe_key, "kms:DescribeKey", code="AccessDeniedException", KeyId=other)


def test_condition_that_is_not_evaluated_refuses(people: People) -> None:
    condition = {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}
    ec2 = people.make("office", statement("ec2:*", Condition=condition))("ec2")
    refused(ec2.describe_vpcs, "cannot evaluate", "IpAddress", code="UnauthorizedOperation")


def test_role_is_assumed_with_a_permission_and_its_trust(people: People, clients: Clients) -> None:
    arns = {}
    for name, document in {
        "next": trust(Condition={"Null": {"sts:ExternalId": "true"}}),
        "others": trust(Principal={"AWS": "444455556666"}),
        "forbidden": trust(),
    }.items():
        arns[name] = clients("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    sts = people.make("starter", statement("sts:AssumeRole", [arns["next"], arns["others"]]))("sts")
    one = {"RoleArn": arns["next"], "RoleSessionName": "ann"}
    assert sts.assume_role(**one)["Credentials"]
    refused(sts.assume_role, ExternalId="another", **one)
    refused(sts.assume_role, "session policies", Policy=policy(statement("*")), **one)
    for name in ("others", "forbidden"):
        refused(sts.assume_role, arns[name], RoleArn=arns[name], RoleSessionName="ann")


def test_assumed_role_of_a_role_is_evaluated_too(people: People, clients: Clients) -> None:
    starter = people.make("starter", statement("sts:AssumeRole"))
    arn = clients("iam").create_role(RoleName="next", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    ec2 = people.assume(arn, starter)("ec2")
    refused(ec2.describe_vpcs, "assumed-role/next/ann", code="UnauthorizedOperation")


def test_user_is_evaluated(people: People, clients: Clients) -> None:
    iam = clients("iam")
    iam.create_user(UserName="bob")
    ec2 = people.holding(iam.create_access_key(UserName="bob")["AccessKey"])("ec2")
    refused(ec2.describe_vpcs, "user/bob", code="UnauthorizedOperation")
    iam.attach_user_policy(UserName="bob", PolicyArn=ADMINISTRATOR)
    ec2.describe_vpcs()


def test_sessions_of_services_roles_are_evaluated_and_the_root_is_not(people: People, clients: Clients) -> None:
    arn = make_role(people.account, "function", "lambda.amazonaws.com").attributes()["Arn"]
    function = people.assume(arn, clients)
    refused(
        function("lambda").invoke,
        f"User: arn:aws:sts::{ACCOUNT_ID}:assumed-role/function/ann is not authorized to perform: "
        f"lambda:InvokeFunction on resource: arn:aws:lambda:{HERE}:function:work because no identity-based",
        code="AccessDeniedException",
        FunctionName="work",
    )
    before = len(people.account.journal.entries(kind="iam"))
    clients("ec2").describe_vpcs()
    assert len(people.account.journal.entries(kind="iam")) == before


def test_name_of_a_role_with_a_path_has_none_in_a_refusal(people: People) -> None:
    ec2 = people.make("pathful", Path="/teams/ml/")("ec2")
    refused(ec2.describe_vpcs, "assumed-role/pathful/ann", code="UnauthorizedOperation")


def with_policy(clients: Clients, *statements: Mapping[str, Any]) -> None:
    """Create the bucket `own` with a versioned object `a` and this policy."""
    s3 = clients("s3")
    s3.create_bucket(Bucket="own", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket="own", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="own", Key="a", Body=b"x")
    s3.delete_public_access_block(Bucket="own")
    s3.put_bucket_policy(Bucket="own", Policy=policy(*statements))


def test_policy_of_a_bucket_allows_and_denies(people: People, clients: Clients) -> None:
    poor, rich = people.make("poor"), people.make("rich", statement("s3:*"))
    roles = f"arn:aws:iam::{ACCOUNT_ID}:role"
    plain = statement("s3:*", "arn:aws:s3:::own/*", Principal="*", Condition={"Bool": {"aws:SecureTransport": "false"}})
    with_policy(
        clients,
        plain | {"Effect": "Deny"},
        statement("s3:GetObject*", "arn:aws:s3:::own/*", Principal={"AWS": f"{roles}/poor"}),
        statement("s3:*", "arn:aws:s3:::own/*", Principal={"AWS": f"arn:aws:iam::{ACCOUNT_ID}:root"}),
        statement("s3:DeleteObject", "arn:aws:s3:::own/*", Principal={"AWS": f"{roles}/rich"}) | {"Effect": "Deny"},
    )
    assert poor("s3").get_object(Bucket="own", Key="a")["Body"].read() == b"x"
    refused(poor("s3").put_object, "s3:PutObject", Bucket="own", Key="a", Body=b"y")
    rich("s3").put_object(Bucket="own", Key="a", Body=b"y")
    refused(rich("s3").delete_object, "with an explicit deny", Bucket="own", Key="a")


def test_policy_of_a_bucket_does_not_widen_a_boundary(people: People, clients: Clients) -> None:
    clients("iam").create_policy(PolicyName="boundary", PolicyDocument=policy(statement("ec2:*")))
    bounded = people.make("bounded", PermissionsBoundary=BOUNDARY)("s3")
    role = {"AWS": f"arn:aws:iam::{ACCOUNT_ID}:role/bounded"}
    with_policy(clients, statement("s3:*", "arn:aws:s3:::own/*", Principal=role))
    refused(bounded.get_object, "s3:GetObject", Bucket="own", Key="a")


def test_deleting_objects_needs_a_right_for_each_and_for_versions_another(people: People, clients: Clients) -> None:
    with_policy(clients, statement("s3:GetObject", "arn:aws:s3:::own/*", Principal="*"))
    version = clients("s3").head_object(Bucket="own", Key="a")["VersionId"]
    s3 = people.make("cleaner", statement("s3:DeleteObject", "arn:aws:s3:::own/a"))("s3")
    s3.delete_objects(Bucket="own", Delete={"Objects": [{"Key": "a"}]})
    both = {"Objects": [{"Key": "a"}, {"Key": "b"}]}
    refused(s3.delete_objects, "s3:DeleteObject on resource: arn:aws:s3:::own/b", Bucket="own", Delete=both)
    one = {"Objects": [{"Key": "a", "VersionId": version}]}
    refused(s3.delete_objects, "s3:DeleteObjectVersion on resource: arn:aws:s3:::own/a", Bucket="own", Delete=one)


def test_missing_object_is_shown_as_missing_only_to_whoever_lists_the_bucket(people: People, clients: Clients) -> None:
    with_policy(clients, statement("s3:PutObject", "arn:aws:s3:::own/*", Principal={"AWS": ACCOUNT_ID}))
    read, list_all = statement("s3:GetObject", "arn:aws:s3:::own/*"), statement("s3:ListBucket", "arn:aws:s3:::own")
    refused(people.make("reader", read)("s3").get_object, "s3:ListBucket", Bucket="own", Key="gone")
    refused(people.make("lister", read, list_all)("s3").get_object, Bucket="own", Key="gone", code="NoSuchKey")


def test_listing_with_a_prefix_is_what_a_condition_sees(people: People, clients: Clients) -> None:
    with_policy(clients, statement("s3:PutObject", "arn:aws:s3:::own/*", Principal={"AWS": ACCOUNT_ID}))
    below = {"StringLike": {"s3:prefix": "ray/*"}}
    s3 = people.make("lister", statement("s3:ListBucket", "arn:aws:s3:::own", Condition=below))("s3")
    s3.list_objects_v2(Bucket="own", Prefix="ray/x")
    refused(s3.list_objects_v2, "s3:ListBucket", Bucket="own", Prefix="other/")
    refused(s3.list_objects_v2, "s3:ListBucket", Bucket="own")


def encrypted_bucket(clients: Clients) -> str:
    """Create a bucket whose objects a customer managed key encrypts; return the key's ARN."""
    key: str = clients("kms").create_key()["KeyMetadata"]["Arn"]
    clients("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    clients("s3").put_object(Bucket="data", Key="plain", Body=b"x")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    clients("s3").put_bucket_encryption(Bucket="data", ServerSideEncryptionConfiguration={"Rules": [rule]})
    clients("s3").put_object(Bucket="data", Key="secret", Body=b"x")
    return key


def test_encrypted_objects_need_rights_on_their_key_through_s3(people: People, clients: Clients) -> None:
    key, objects = encrypted_bucket(clients), "arn:aws:s3:::data/*"
    through = {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}}
    elsewhere = {"StringEquals": {"kms:ViaService": f"fsx.{REGION}.amazonaws.com"}}
    files = statement(["s3:GetObject", "s3:PutObject"], objects)
    poor = people.make("poor", files, statement(["kms:Decrypt", "kms:GenerateDataKey"], key, Condition=elsewhere))("s3")
    poor.get_object(Bucket="data", Key="plain")
    refused(poor.get_object, "kms:Decrypt", key, Bucket="data", Key="secret")
    refused(poor.put_object, "kms:GenerateDataKey", key, Bucket="data", Key="a", Body=b"a")
    reader = people.make("reading", files, statement("kms:Decrypt", key, Condition=through))("s3")
    reader.get_object(Bucket="data", Key="secret")
    refused(reader.create_multipart_upload, "kms:GenerateDataKey", key, Bucket="data", Key="a")
    writer = people.make("writing", files, statement("kms:GenerateDataKey", key, Condition=through))("s3")
    writer.put_object(Bucket="data", Key="a", Body=b"a")
    refused(writer.create_multipart_upload, "kms:Decrypt", key, Bucket="data", Key="a")


def test_publishing_to_an_encrypted_topic_needs_the_topic_and_its_key(people: People, clients: Clients) -> None:
    key: str = clients("kms").create_key()["KeyMetadata"]["Arn"]
    sns = clients("sns")
    topic, other = (
        sns.create_topic(Name=name, Attributes={"KmsMasterKeyId": key})["TopicArn"] for name in ("own", "other")
    )
    publish, rights = statement("sns:Publish", topic), ["kms:Decrypt", "kms:GenerateDataKey"]
    through = {"StringEquals": {"kms:ViaService": f"sns.{REGION}.amazonaws.com"}}
    poor = people.make("no-key", publish)("sns")
    refused(poor.publish, "kms:Decrypt", key, TopicArn=topic, Message="a")
    publisher = people.make("publisher", publish, statement(rights, key, Condition=through))("sns")
    assert publisher.publish(TopicArn=topic, Message="a")["MessageId"]
    refused(publisher.publish, "sns:Publish", other, TopicArn=other, Message="a")


def test_a_keys_policy_and_state_are_read_with_rights_on_this_key_only(people: People, clients: Clients) -> None:
    own, other = (clients("kms").create_key()["KeyMetadata"]["Arn"] for _ in range(2))
    kms = people.make("reads-key", statement(["kms:DescribeKey", "kms:GetKeyPolicy"], own))("kms")
    assert kms.describe_key(KeyId=own)["KeyMetadata"]["KeyState"] == "Enabled"
    assert kms.get_key_policy(KeyId=own, PolicyName="default")["Policy"]
    refused(kms.get_key_policy, other, KeyId=other, PolicyName="default", code="AccessDeniedException")
