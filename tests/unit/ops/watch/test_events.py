"""`ops events`: three sources merged by time, what cannot be read, following."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from ops.clients import CallerAccount
from ops.commands.whole import app
from ops.watch.event_feed import Feed
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import event, failure

EVENTS = "/api/v1/events"


def events(*words: str) -> Result:
    return CliRunner().invoke(app, ["events", "--env", "dev", *words])


def ago(minutes: int) -> datetime:
    return datetime.now(UTC) - timedelta(minutes=minutes)


def warning(name: str, moment: datetime) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ray", "uid": name},
        "involvedObject": {"kind": "Pod", "namespace": "ray", "name": "rayml-head"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/5 nodes\nare available",
        "count": 3,
        "lastTimestamp": moment.isoformat(),
    }


def stack_events(*members: tuple[str, str, datetime]) -> str:
    """Return DescribeStackEvents's answer, newest first; each is id, status and time."""
    listed = "".join(
        f"<member><EventId>{key}</EventId><StackId>s</StackId><StackName>rayhp-dev-eks</StackName>"
        f"<LogicalResourceId>Cluster</LogicalResourceId><ResourceStatus>{status}</ResourceStatus>"
        f"<ResourceStatusReason>too small</ResourceStatusReason><Timestamp>{moment.isoformat()}</Timestamp></member>"
        for key, status, moment in members
    )
    result = f"<DescribeStackEventsResult><StackEvents>{listed}</StackEvents></DescribeStackEventsResult>"
    return (
        f'<DescribeStackEventsResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">{result}'
        "</DescribeStackEventsResponse>"
    )


def unknown_stack() -> tuple[int, str]:
    error = "<Error><Code>ValidationError</Code><Message>Stack does not exist</Message></Error>"
    return 400, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"


@pytest.fixture
def happened(apis: Apis) -> Apis:
    """Let something happen in each source."""
    hyperpod = event(1, "Instance failed.", "Error", "Instance") | {
        "EventTime": ago(20).timestamp(),
        "InstanceId": "i-1",
    }
    apis.aws["ListClusterEvents"] = {"Events": [hyperpod]}
    apis.aws["DescribeClusterEvent"] = failure("Instance", "EFA health checks did not run.")
    told = stack_events(
        ("e3", "UPDATE_COMPLETE", ago(5)), ("e2", "UPDATE_FAILED", ago(10)), ("e1", "CREATE_FAILED", ago(600))
    )
    apis.aws["DescribeStackEvents"] = [unknown_stack(), unknown_stack(), told, unknown_stack()]
    apis.kubernetes[EVENTS] = {"items": [warning("w1", ago(15)), warning("w0", ago(300))], "metadata": {}}
    return apis


def test_events_of_all_sources_are_merged_by_time(happened: Apis) -> None:
    result = events()
    assert result.exit_code == 0, result.output
    assert [line.partition(" ")[2].partition(" ")[2] for line in result.stdout.splitlines()] == [
        "HyperPod Error i-1: Instance failed. EFA health checks did not run.",
        "Kubernetes Warning Pod ray/rayml-head: FailedScheduling: 0/5 nodes are available (3 times)",
        "CloudFormation Failed rayhp-dev-eks/Cluster: UPDATE_FAILED: too small",
    ]


def test_only_what_is_younger_is_printed(happened: Apis) -> None:
    found = json.loads(events("--since", "12m", "-o", "json").stdout)
    assert_same_shape(found, documented("events"))
    assert [(each["source"], each["about"]) for each in found] == [
        ("HyperPod", "i-1"),  # the fake ignores EventTimeAfter
        ("CloudFormation", "rayhp-dev-eks/Cluster"),
    ]


def test_a_source_that_cannot_be_read_hides_no_other(happened: Apis) -> None:
    happened.kubernetes[EVENTS] = (403, {"message": "events is forbidden"})
    result = events()
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "warning: Kubernetes cannot be read: the Kubernetes API refuses this request" in result.stderr


def test_without_a_cluster_the_other_sources_are_read(happened: Apis) -> None:
    happened.aws["DescribeEksCluster"] = aws_error("ResourceNotFoundException", "No cluster found.", 404)
    happened.aws["DescribeCluster"] = aws_error("ResourceNotFound", "no such cluster")
    result = events()
    assert result.exit_code == 0
    assert "UPDATE_FAILED" in result.stdout
    assert "Kubernetes cannot be read: there is no EKS cluster yet" in result.stderr


def test_if_no_source_can_be_read_the_exit_code_is_2(happened: Apis) -> None:
    happened.kubernetes[EVENTS] = (403, {"message": "forbidden"})
    happened.aws["DescribeCluster"] = aws_error("AccessDeniedException", "no")
    denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
    happened.aws["DescribeStackEvents"] = (403, denied)
    result = events()
    assert result.exit_code == 2
    assert result.stderr.count("cannot be read") == 3


def test_a_duration_without_a_unit_is_bad_input() -> None:
    result = events("--since", "5")
    assert result.exit_code == 2
    assert "5m" in result.stderr


def test_following_prints_each_event_once_and_an_obstacle_once(happened: Apis) -> None:
    first, second = warning("w1", ago(15)), warning("w2", ago(1))
    forbidden = 403, {"message": "forbidden"}
    looks = [{"items": [first], "metadata": {}}, forbidden, forbidden, {"items": [first, second], "metadata": {}}]
    happened.kubernetes[EVENTS] = looks
    said: list[str] = []
    warned: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            raise KeyboardInterrupt

    environment = config.load("dev")
    with Feed(environment, CallerAccount(environment), 7200, interval=0.01) as feed, pytest.raises(KeyboardInterrupt):
        feed.follow(say, warned.append)
    assert len(set(said)) == 4
    assert len(warned) == 1
