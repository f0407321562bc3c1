"""Wrong credentials, no network or no access give one message with a fix, exit code 2 and no traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.commands.whole import app
from tests.unit.support.fake_apis import Apis, aws_error

Break = Callable[[Apis], Any]


def refusal(*arguments: str) -> str:
    """Run `ops` and return the message, which must be one line."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            lambda apis: setattr(apis, "account", "999999999999"),
            "the AWS credentials belong to account 999999999999 (arn:aws:iam::999999999999:role/Someone), but "
            "environment dev is in 111122223333. Fix: log in to that account, or set AWS_PROFILE",
        ),
        (
            lambda apis: apis.aws.update(
                GetCallerIdentity=(
                    403,
                    "<ErrorResponse><Error><Code>ExpiredToken</Code><Message>The security token included in the "
                    "request is expired</Message></Error></ErrorResponse>",
                )
            ),
            "AWS does not accept the credentials (ExpiredToken: The security token included in the request is "
            "expired). Fix: log in again",
        ),
        (
            lambda apis: apis.aws.update(
                DescribeEksCluster=aws_error("ResourceNotFoundException", "No cluster found for name: rayhp-dev.", 404)
            ),
            "there is no EKS cluster yet (No cluster found for name: rayhp-dev). Fix: deploy the eks stack",
        ),
        (
            lambda apis: apis.aws.update(
                DescribeEksCluster={"cluster": {"name": "rayhp-dev", "status": "CREATING", "certificateAuthority": {}}}
            ),
            "EKS cluster rayhp-dev is CREATING and has no endpoint yet. Fix: wait for the deployment of the eks stack",
        ),
        (
            lambda apis: apis.aws.update(
                DescribeCluster=aws_error("AccessDeniedException", "not authorized to perform: [sagemaker:x]")
            ),
            "AWS refuses DescribeCluster (AccessDeniedException): not authorized to perform: [sagemaker:x]. "
            "Fix: use credentials that may do this, or correct what AWS names",
        ),
        (
            lambda apis: apis.refuse(401, "Unauthorized"),
            "the Kubernetes API does not recognise your IAM role (401). Fix: list it under access.viewers of the "
            "environment, then deploy the eks stack",
        ),
        (
            lambda apis: apis.refuse(403, 'nodes is forbidden: User "someone" cannot list resource "nodes"'),
            "the Kubernetes API refuses this request (403): "
            'nodes is forbidden: User "someone" cannot list resource "nodes". '
            "Fix: list your IAM role under access.viewers of the environment, then deploy the eks stack",
        ),
        (
            lambda apis: apis.refuse(500, "etcdserver: leader changed"),
            "the Kubernetes API answers 500 Internal Server Error: etcdserver: leader changed. "
            "Fix: run the command again",
        ),
    ],
    ids=["other account", "expired", "no EKS cluster", "EKS creating", "denied", "401", "403", "500"],
)
def test_each_obstacle_to_reading_is_reported(apis: Apis, broken: Break, message: str) -> None:
    broken(apis)
    assert refusal("status", "--env", "dev") == message


def test_shell_that_has_left_a_kept_rehearsal_is_told_the_way_back(no_aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_aws.setattr("ops.clients._KEPT_REHEARSALS", tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "look.sh").touch()
    assert refusal("status", "--env", "dev") == (
        "there are no AWS credentials. Fix: log in, or set AWS_PROFILE. "
        f"For the kept rehearsal of dev: `source {tmp_path}/dev/look.sh`"
    )
    assert refusal("status", "--env", "prod") == "there are no AWS credentials. Fix: log in, or set AWS_PROFILE"


def test_a_wait_ends_without_access(apis: Apis) -> None:
    apis.refuse(401, "Unauthorized")
    assert "the Kubernetes API does not recognise your IAM role (401)" in refusal("wait", "--env", "dev")


def test_without_credentials_it_says_so(no_aws: pytest.MonkeyPatch) -> None:
    assert refusal("status", "--env", "dev") == "there are no AWS credentials. Fix: log in, or set AWS_PROFILE"


def test_an_unknown_profile_is_named(no_aws: pytest.MonkeyPatch) -> None:
    no_aws.setenv("AWS_PROFILE", "nobody")
    assert refusal("status", "--env", "dev").startswith(
        "the AWS credentials cannot be used: The config profile (nobody) could not be found. Fix: "
    )


def test_an_aws_endpoint_that_does_not_answer_is_named(
    apis: Apis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    message = refusal("status", "--env", "dev")
    expected = (
        'AWS does not answer: Could not connect to the endpoint URL: "http://127.0.0.1:1/". '
        "Fix: open another shell: this one's AWS is http://127.0.0.1:1, as a rehearsal that has ended"
    )
    assert message.startswith(expected)


def test_a_kubernetes_endpoint_that_does_not_answer_leads_to_the_allow_list(apis: Apis) -> None:
    apis.aws["DescribeEksCluster"]["cluster"]["endpoint"] = "http://127.0.0.1:1"
    message = refusal("status", "--env", "dev")
    assert message.startswith("the Kubernetes API does not answer (")
    assert "Connection refused" in message
    assert message.endswith("connect from the VPC, or add your address to eks.public_access_cidrs of the environment")


def test_a_throttled_call_is_retried(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    ready = apis.aws["DescribeCluster"]
    throttled = aws_error("ThrottlingException", "Rate exceeded")
    made = {"name": "b", "namespace": "image-build", "creationTimestamp": "2026-11-01T10:00:00Z"}
    building = {"items": [{"metadata": made, "status": {}}]}
    jobs = apis.kubernetes["/apis/batch/v1/namespaces/image-build/jobs"]
    apis.kubernetes["/apis/batch/v1/namespaces/image-build/jobs"] = [building, jobs]
    apis.kubernetes["/api/v1/nodes"] *= 2
    # Three times, because the SDK makes three attempts.
    apis.aws["DescribeCluster"] = [ready, throttled, throttled, throttled, ready]
    result = CliRunner().invoke(app, ["wait", "--env", "dev"])
    assert result.exit_code == 0, result.output
    expected = "no answer, retrying: AWS refuses DescribeCluster (ThrottlingException): Rate exceeded"
    assert expected in result.stdout.splitlines()
