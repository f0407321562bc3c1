"""The guard over the CSI driver's file systems: it waits for their deletion, and names those that stay."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from botocore.stub import Stubber

from handlers.file_system_guard import index

KEY, VALUE = "ray-on-hyperpod:environment", "rayhp-dev"
ARN = "arn:aws:fsx:us-west-2:111122223333:file-system/"


@pytest.fixture
def fsx(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """FSx's API with the answers that a test gives; botocore checks their shapes."""
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    session = boto3.Session(aws_access_key_id="none", aws_secret_access_key="none", region_name="us-west-2")
    client: Any = session.client("fsx")
    monkeypatch.setattr(index, "_client", lambda: client)
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def file_system(number: int, lifecycle: str = "AVAILABLE", **tags: str) -> dict[str, Any]:
    identifier = f"fs-0000000000000000{number}"
    return {
        "FileSystemId": identifier,
        "Lifecycle": lifecycle,
        "ResourceARN": ARN + identifier,
        "Tags": [{"Key": key, "Value": value} for key, value in (tags or {KEY: VALUE}).items()],
    }


def shows(fsx: Stubber, *pages: list[dict[str, Any]]) -> None:
    for number, page in enumerate(pages):
        token = {"NextToken": str(number + 1)} if number + 1 < len(pages) else {}
        asked = {"NextToken": str(number)} if number else {}
        fsx.add_response("describe_file_systems", {"FileSystems": page, **token}, asked)


def event(kind: str = "Delete", *, minutes_ago: float = 0, reclaim: str = "Delete") -> dict[str, Any]:
    """Return the event of is_complete: the request, and on_event's answer merged into it."""
    given: dict[str, Any] = {
        "RequestType": kind,
        "LogicalResourceId": "Guard",
        "ResourceProperties": {"TagKey": KEY, "TagValue": VALUE, "ReclaimPolicy": reclaim},
    }
    answer = index.on_event(given, None)
    answer["AskedAt"] -= minutes_ago * 60
    return given | answer


@pytest.mark.usefixtures("fsx")
@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_nothing_is_asked_before_the_delete(kind: str) -> None:
    assert index.is_complete(event(kind), None) == {"IsComplete": True}


def test_id_stays_so_that_no_update_is_a_replacement() -> None:
    first = index.on_event({"RequestType": "Create", "LogicalResourceId": "Guard"}, None)["PhysicalResourceId"]
    again = {"RequestType": "Update", "LogicalResourceId": "Guard", "PhysicalResourceId": first}
    assert index.on_event(again, None)["PhysicalResourceId"] == first


def test_done_when_no_file_system_carries_the_environments_tag(fsx: Stubber) -> None:
    other = file_system(1, **{KEY: "rayhp-prod"})
    untagged = file_system(2)
    del untagged["Tags"]
    shows(fsx, [other, untagged])
    assert index.is_complete(event(), None) == {"IsComplete": True}


def test_waits_while_the_driver_has_not_asked_and_while_fsx_deletes(fsx: Stubber) -> None:
    for lifecycle in ("AVAILABLE", "DELETING"):
        shows(fsx, [file_system(1, lifecycle)])
        assert index.is_complete(event(minutes_ago=20), None) == {"IsComplete": False}


def test_looks_at_every_page(fsx: Stubber) -> None:
    shows(fsx, [file_system(1, **{KEY: "rayhp-prod"})], [file_system(2)])
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_file_system_that_stays_is_named_with_the_command_that_ends_it(fsx: Stubber) -> None:
    shows(fsx, [file_system(1), file_system(2, "DELETING")])
    with pytest.raises(index.FileSystemsRemainError) as raised:
        index.is_complete(event(minutes_ago=31), None)
    text = str(raised.value)
    assert "did not delete fs-00000000000000001 (AVAILABLE), fs-00000000000000002 (DELETING)" in text
    assert "aws fsx delete-file-system --region us-west-2 --file-system-id fs-00000000000000001 " in text


def test_file_system_that_shall_stay_is_named_at_once_with_the_way_to_keep_it(fsx: Stubber) -> None:
    shows(fsx, [file_system(1)])
    with pytest.raises(
        index.FileSystemsRemainError, match="reclaim policy Retain keeps fs-00000000000000001"
    ) as raised:
        index.is_complete(event(reclaim="Retain"), None)
    assert f"aws fsx untag-resource --region us-west-2 --resource-arn {ARN}fs-0" in str(raised.value)


def test_retained_file_system_that_somebody_deletes_is_waited_for(fsx: Stubber) -> None:
    shows(fsx, [file_system(1, "DELETING")])
    assert index.is_complete(event(reclaim="Retain"), None) == {"IsComplete": False}


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more")])
def test_file_systems_without_a_name_in_the_text_are_counted(fsx: Stubber, count: int, more: str) -> None:
    shows(fsx, [file_system(number) for number in range(1, count + 1)])
    with pytest.raises(index.FileSystemsRemainError) as raised:
        index.is_complete(event(minutes_ago=31), None)
    assert f", fs-00000000000000005 (AVAILABLE){more}. To delete:" in str(raised.value)


def test_text_fits_into_cloudformations_answer(fsx: Stubber) -> None:
    shows(fsx, [file_system(number) for number in range(200)])
    with pytest.raises(index.FileSystemsRemainError, match="and 195 more") as raised:
        index.is_complete(event(minutes_ago=31), None)
    assert len(str(raised.value)) < 1500


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_passing_fault_is_not_yet(fsx: Stubber, code: str) -> None:
    fsx.add_client_error("describe_file_systems", code)
    assert index.is_complete(event(), None) == {"IsComplete": False}


@pytest.mark.parametrize("error", [ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError])
def test_service_that_cannot_be_reached_is_not_yet(monkeypatch: pytest.MonkeyPatch, error: type[BotoCoreError]) -> None:
    def fails(*_: object) -> None:
        raise error(endpoint_url="https://fsx.us-west-2.amazonaws.com/")

    monkeypatch.setattr(index, "_client", fails)
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_answer_of_a_load_balancer_is_not_yet(fsx: Stubber) -> None:
    fsx.add_client_error("describe_file_systems", "503", http_status_code=503)
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_missing_permission_fails_with_its_name(fsx: Stubber) -> None:
    fsx.add_client_error("describe_file_systems", "AccessDeniedException", "not authorized: fsx:DescribeFileSystems")
    with pytest.raises(Exception, match=r"AccessDeniedException.*fsx:DescribeFileSystems"):
        index.is_complete(event(), None)
