"""Test Lambda's CloudFormation resources."""

import pytest

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import invoke, make_function, make_role, upload, zipped
from embedded_account.testing.resources import RefusedWith, ResourceModels

HELLO = {"main.py": "def handler(event, context):\n    return 'hello'\n"}
VPC_POLICY = "service-role/AWSLambdaVPCAccessExecutionRole"


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


def test_update_replaces_code_and_forgets_removed_settings(account: Account, resources: ResourceModels) -> None:
    function = make_function(account, HELLO, Environment={"Variables": {"AB": "1"}}, Timeout=30)
    code = upload(account, "new.zip", zipped({"main.py": "import os\nhandler = lambda e, c: os.environ.get('AB')\n"}))

    resources.update(
        function,
        {
            "FunctionName": "work",
            "Code": code,
            "Handler": "main.handler",
            "Runtime": "python3.13",
            "Role": f"arn:aws:iam::{account.account_id}:role/work-role",
        },
    )

    assert invoke(account, function)[0] is None


def test_inline_code_is_index_js_for_node(account: Account, resources: ResourceModels) -> None:
    role = make_role(account, "inline", "lambda.amazonaws.com")
    function = resources.create(
        "AWS::Lambda::Function",
        {
            "Code": {"ZipFile": "exports.handler = async () => 'inline';"},
            "Handler": "index.handler",
            "Runtime": "nodejs24.x",
            "Timeout": 20,
            "Role": role.attributes()["Arn"],
        },
    )

    assert invoke(account, function)[0] == "inline"


def test_second_function_of_the_same_name_is_refused(account: Account, resources: ResourceModels) -> None:
    make_function(account, HELLO)

    with RefusedWith(None, "Function already exist: work"):
        resources.create(
            "AWS::Lambda::Function",
            {
                "FunctionName": "work",
                "Code": upload(account, "x.zip", zipped(HELLO)),
                "Handler": "main.handler",
                "Runtime": "python3.13",
                "Role": f"arn:aws:iam::{account.account_id}:role/work-role",
            },
        )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Runtime": "java21"}, "Python and Node.js only"),
        ({"Timeout": 901}, "1 to 900 is allowed"),
        ({"MemorySize": 64}, "128 to 10240 is allowed"),
        ({"Role": "arn:aws:iam::111122223333:role/nobody"}, "cannot be assumed by Lambda"),
        ({"Handler": ""}, "Handler is required"),
        ({"SnapStart": {"ApplyOn": "PublishedVersions"}}, "does not implement SnapStart"),
    ],
)
def test_bad_functions_are_refused(account: Account, changes: dict[str, object], reason: str) -> None:
    with RefusedWith(None, reason):
        make_function(account, HELLO, **changes)  # type: ignore[arg-type]  # runtime is among the changes


def test_role_of_another_service_cannot_run_a_function(account: Account, resources: ResourceModels) -> None:
    role = make_role(account, "for-ec2", "ec2.amazonaws.com")

    with RefusedWith(None, "cannot be assumed by Lambda"):
        make_function(account, HELLO, Role=role.attributes()["Arn"])


def _subnet_and_group(clients: Clients) -> tuple[str, str]:
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="fn", Description="fn", VpcId=vpc)["GroupId"]
    return subnet, group


def test_function_in_a_vpc_holds_its_subnet_until_it_is_deleted(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    subnet, group = _subnet_and_group(clients)
    role = make_role(account, "vpc", "lambda.amazonaws.com", VPC_POLICY)
    function = make_function(
        account,
        HELLO,
        Role=role.attributes()["Arn"],
        VpcConfig={"SubnetIds": [subnet], "SecurityGroupIds": [group]},
    )

    assert [made.kind for made in account.background.holders(subnet)] == ["network-interface"]
    resources.delete(function)
    assert account.background.holders(subnet) == []


def test_function_in_a_vpc_needs_permission_for_interfaces(account: Account, clients: Clients) -> None:
    subnet, group = _subnet_and_group(clients)

    with RefusedWith(None, "does not have permissions to call CreateNetworkInterface"):
        make_function(account, HELLO, VpcConfig={"SubnetIds": [subnet], "SecurityGroupIds": [group]})


def test_permission_is_added_and_removed_with_its_resource(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    make_function(account, HELLO)
    permission = resources.create(
        "AWS::Lambda::Permission",
        {"FunctionName": "work", "Action": "lambda:InvokeFunction", "Principal": "events.amazonaws.com"},
        name="allow-events",
    )

    assert "events.amazonaws.com" in clients("lambda").get_policy(FunctionName="work")["Policy"]
    resources.delete(permission)
    with pytest.raises(clients("lambda").exceptions.ResourceNotFoundException):
        clients("lambda").get_policy(FunctionName="work")


def test_log_group_of_the_template_is_used(account: Account, clients: Clients, resources: ResourceModels) -> None:
    resources.create("AWS::Logs::LogGroup", {"LogGroupName": "/mine", "RetentionInDays": 7})
    function = make_function(account, HELLO, LoggingConfig={"LogGroup": "/mine"})

    invoke(account, function)

    groups = [group["logGroupName"] for group in clients("logs").describe_log_groups()["logGroups"]]
    assert groups == ["/mine"]
    assert account.background.all() == []
