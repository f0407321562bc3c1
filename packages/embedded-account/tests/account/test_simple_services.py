"""Test SSM parameters, log groups, ECR repositories, state machines and CloudTrail."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ecr.models import ecr_backends

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_function, make_role
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.waiting import wait_until

IMMUTABLE = {
    "RepositoryName": "ray",
    "ImageTagMutability": "IMMUTABLE_WITH_EXCLUSION",
    "ImageTagMutabilityExclusionFilters": [
        {"ImageTagMutabilityExclusionFilterType": "WILDCARD", "ImageTagMutabilityExclusionFilterValue": "cache*"}
    ],
    "ImageScanningConfiguration": {"ScanOnPush": True},
}


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


def test_parameter_without_a_name_gets_one(clients: Clients, resources: ResourceModels) -> None:
    parameter = resources.create("AWS::SSM::Parameter", {"Type": "StringList", "Value": "a,b"}, name="stack-P-1")

    found = clients("ssm").get_parameter(Name=parameter.physical_resource_id)["Parameter"]
    assert (found["Name"], found["Type"], found["Value"]) == ("CFN-stack-P-1", "StringList", "a,b")


def test_updated_parameter_keeps_its_history(clients: Clients, resources: ResourceModels) -> None:
    parameter = resources.create("AWS::SSM::Parameter", {"Name": "/p", "Type": "String", "Value": "1"})

    resources.update(parameter, {"Name": "/p", "Type": "String", "Value": "2"})

    assert clients("ssm").get_parameter(Name="/p")["Parameter"]["Version"] == 2


def test_secure_string_is_refused(resources: ResourceModels) -> None:
    with RefusedWith(None, "Allowed: String, StringList"):
        resources.create("AWS::SSM::Parameter", {"Type": "SecureString", "Value": "x"})


def test_log_events_are_filtered_by_the_prefix_of_their_stream(clients: Clients) -> None:
    logs = clients("logs")
    logs.create_log_group(logGroupName="/g")
    for stream in ("Life/a", "Life/b", "Health/a"):
        logs.create_log_stream(logGroupName="/g", logStreamName=stream)
        line = {"timestamp": int(time.time() * 1000), "message": stream}
        logs.put_log_events(logGroupName="/g", logStreamName=stream, logEvents=[line])

    def found(prefix: str) -> list[str]:
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName="/g", logStreamNamePrefix=prefix)
        return [event["message"] for page in pages for event in page["events"]]

    assert (found("Life/"), found("Health/"), found("Nothing/")) == (["Life/a", "Life/b"], ["Health/a"], [])
    with pytest.raises(ClientError, match="cannot both be specified"):
        logs.filter_log_events(logGroupName="/g", logStreamNamePrefix="Life/", logStreamNames=["Life/a"])
    with pytest.raises(ClientError, match="The specified log group does not exist"):
        logs.filter_log_events(logGroupName="/other", logStreamNamePrefix="Life/")


def test_log_group_retention_can_be_changed_and_removed(clients: Clients, resources: ResourceModels) -> None:
    group = resources.create("AWS::Logs::LogGroup", {"LogGroupName": "/g", "RetentionInDays": 7})
    logs = clients("logs")
    assert logs.describe_log_groups()["logGroups"][0]["retentionInDays"] == 7

    resources.update(group, {"LogGroupName": "/g"})

    assert "retentionInDays" not in logs.describe_log_groups()["logGroups"][0]
    with RefusedWith(None, "already exists"):
        resources.create("AWS::Logs::LogGroup", {"LogGroupName": "/g"})
    with RefusedWith(None, "RetentionInDays: 8 is invalid"):
        resources.create("AWS::Logs::LogGroup", {"LogGroupName": "/h", "RetentionInDays": 8})


def test_repository_with_images_is_not_deleted_unless_it_empties_on_delete(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    repository = resources.create("AWS::ECR::Repository", IMMUTABLE)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"digest": "sha256:1"},
        "layers": [],
    }
    ecr = clients("ecr")
    ecr.put_image(repositoryName="ray", imageManifest=json.dumps(manifest), imageTag="v1")

    with pytest.raises(Exception, match="RepositoryNotEmptyException"):
        resources.delete(repository)
    resources.update(repository, {**IMMUTABLE, "EmptyOnDelete": True})
    resources.delete(repository)

    assert ecr.describe_repositories()["repositories"] == []


def test_repository_keeps_what_the_template_says(clients: Clients, resources: ResourceModels) -> None:
    rule = {
        "rulePriority": 1,
        "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 5},
        "action": {"type": "expire"},
    }
    resources.create(
        "AWS::ECR::Repository",
        {**IMMUTABLE, "LifecyclePolicy": {"LifecyclePolicyText": json.dumps({"rules": [rule]})}},
    )

    ecr = clients("ecr")
    found = ecr.describe_repositories()["repositories"][0]
    assert found["imageTagMutability"] == "IMMUTABLE_WITH_EXCLUSION"
    assert found["imageTagMutabilityExclusionFilters"] == [{"filterType": "WILDCARD", "filter": "cache*"}]
    assert found["imageScanningConfiguration"] == {"scanOnPush": True}
    assert "imageCountMoreThan" in ecr.get_lifecycle_policy(repositoryName="ray")["lifecyclePolicyText"]


def test_exclusions_need_the_mode_that_has_them(resources: ResourceModels) -> None:
    with pytest.raises(Exception, match="imageTagMutabilityExclusionFilters"):
        resources.create("AWS::ECR::Repository", {**IMMUTABLE, "ImageTagMutability": "IMMUTABLE"})
    assert ecr_backends["111122223333"]["us-west-2"].repositories == {}


def run_machine(account: Account, clients: Clients, resources: ResourceModels, code: str, *policies: str) -> Any:
    """Run a state machine, whose role has these policies of AWS, that retries a function; return the execution."""
    function = make_function(account, {"main.py": code}, Timeout=20)
    definition = {
        "StartAt": "pause",
        "States": {
            "pause": {"Type": "Wait", "Seconds": 60, "Next": "poll"},
            "poll": {
                "Type": "Task",
                "Resource": function.attributes()["Arn"],
                "End": True,
                "Retry": [{"ErrorEquals": ["NotYet"], "IntervalSeconds": 1, "MaxAttempts": 20, "BackoffRate": 1}],
            },
        },
    }
    role = make_role(account, "sfn", "states.amazonaws.com", *policies)
    machine = resources.create(
        "AWS::StepFunctions::StateMachine",
        {"DefinitionString": json.dumps(definition), "RoleArn": role.attributes()["Arn"]},
    )
    sfn = clients("stepfunctions")
    execution = sfn.start_execution(stateMachineArn=machine.physical_resource_id, input="{}")["executionArn"]
    wait_until(lambda: sfn.describe_execution(executionArn=execution)["status"] != "RUNNING", "end of the execution")
    return sfn.describe_execution(executionArn=execution)


def test_state_machine_polls_a_function_until_it_is_done(
    account: Account, clients: Clients, resources: ResourceModels, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    code = (
        "class NotYet(Exception): pass\n"
        "def handler(event, context):\n"
        f"    with open({str(asked)!r}, 'a+') as asked:\n"
        "        if asked.write('x') and asked.tell() < 3: raise NotYet('wait')\n"
        "    return {'done': True}\n"
    )
    status = run_machine(account, clients, resources, code, "service-role/AWSLambdaRole")
    assert status["status"] == "SUCCEEDED"
    assert json.loads(status["output"]) == {"done": True}
    assert asked.read_text() == "xxx"


def test_state_machine_needs_a_right_to_invoke_its_function(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    status = run_machine(account, clients, resources, "def handler(event, context):\n    return 1\n")
    assert status["status"] == "FAILED"
    assert "assumed-role/sfn/states is not authorized to perform: lambda:InvokeFunction" in status["cause"]


def test_state_machine_needs_a_role_that_trusts_it(account: Account, resources: ResourceModels) -> None:
    role = make_role(account, "wrong", "lambda.amazonaws.com")

    with RefusedWith(None, "states.amazonaws.com"):
        resources.create(
            "AWS::StepFunctions::StateMachine",
            {
                "DefinitionString": '{"StartAt":"a","States":{"a":{"Type":"Succeed"}}}',
                "RoleArn": role.attributes()["Arn"],
            },
        )


def test_cloudtrail_has_no_events(clients: Clients) -> None:
    assert clients("cloudtrail").lookup_events()["Events"] == []
