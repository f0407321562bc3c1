"""HyperPod's events and logs, held against what our handler and commands read and what the simulator writes."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from botocore.loaders import Loader

from embedded_account.hyperpod.api import listings
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import SimulatedCluster
from handlers.hyperpod_cluster import failure
from ops.readiness import events
from ops.watch.logs import STREAMS
from tests.unit.contracts.contract import read

FACTS: Final = read("hyperpod_events")
NOW: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)
NAMES: Final = {"cluster": "ml-cluster", "group": "gpu"}


def event(seconds: int, level: str, text: str, part: str = "", reason: str = "") -> dict[str, Any]:
    """Return an event of a group, with its reason in a part of the metadata; newer ones have more seconds."""
    found = {part: {"FailureMessage": reason}} if part else {}
    return {
        **{"EventId": f"{seconds}", "EventTime": NOW + timedelta(seconds=seconds), "EventLevel": level},
        **{"ResourceType": "Instance", "InstanceGroupName": "gpu", "Description": text},
        "EventDetails": {"EventMetadata": dict.fromkeys(FACTS["parts"]) | found},
    }


class Service:
    """Both clients, over some events: SageMaker's of boto3, and the handler's own."""

    def __init__(self, found: Iterable[dict[str, Any]]) -> None:
        self.found = sorted(found, key=lambda each: each["EventTime"], reverse=True)

    def list_cluster_events(self, **_: Any) -> dict[str, Any]:
        return {"Events": self.found}

    def describe_cluster_event(self, *, ClusterName: str, EventId: str) -> dict[str, Any]:
        return {"EventDetails": self.event(ClusterName, EventId)}

    def newest_events(self, _name: str, count: int) -> list[dict[str, Any]]:
        return self.found[:count]

    def event(self, _name: str, event_id: str) -> dict[str, Any]:
        return next(each for each in self.found if each["EventId"] == event_id)


def said(*found: dict[str, Any]) -> dict[str, str]:
    """Return what our command and our handler say of the events of a cluster that failed."""
    service: Any = Service(found)
    cluster = {"ClusterName": NAMES["cluster"], **FACTS["only_with"]}
    return {
        "ops": events.last_word(service, cluster, "gpu"),
        "handler": failure.why(service, {**cluster, "FailureMessage": "it failed"}, "failed"),
    }


@pytest.mark.parametrize("part", FACTS["parts"])
def test_product_finds_the_reason_in_each_part(part: str) -> None:
    reason = FACTS["shortage"].format(type="ml.g5.8xlarge")
    for text in said(event(1, "Error", "x", part, reason)).values():
        assert reason in text


def test_product_shows_the_reason_of_the_first_of_two_events() -> None:
    first, second = (text.format(**NAMES) for text in FACTS["failed_instance"])
    reason = FACTS["shortage"].format(type="ml.g5.8xlarge")
    for text in said(event(1, "Error", first, "Instance", reason), event(2, "Error", second)).values():
        assert reason in text


def test_product_lets_no_warning_hide_an_error() -> None:
    reason = FACTS["shortage"].format(type="ml.g5.8xlarge")
    noise = [
        event(seconds, FACTS["scaling_level"], FACTS["scaling_text"], "Cluster", FACTS["scaling_reason"])
        for seconds in range(2, 40)
    ]
    for text in said(event(1, "Error", "x", "Instance", reason), *noise).values():
        assert reason in text
        assert FACTS["scaling_reason"] not in text


def test_product_reads_the_published_streams() -> None:
    assert {*FACTS["streams"]} <= {stream for streams in STREAMS.values() for stream in streams}


def test_simulator_keeps_to_the_levels_of_the_api() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert sorted(shapes["ClusterEventLevel"]["enum"]) == FACTS["levels"]


def test_simulator_has_events_only_with_continuous_provisioning_and_the_published_log_group() -> None:
    arn = "arn:aws:sagemaker:us-west-2:1:cluster/abcdefghijkl"
    requests: tuple[dict[str, Any], ...] = ({}, FACTS["only_with"])
    made = [SimulatedCluster("ml", arn, request, {}, NOW, "eks") for request in requests]
    with pytest.raises(ValidationFailedError):
        listings.require_events(made[0])
    listings.require_events(made[1])
    assert made[0].log_group == FACTS["log_group"].format(name="ml", id="abcdefghijkl")


def test_simulator_reports_a_failed_instance_twice_and_once_with_the_reason() -> None:
    with HyperPodBench() as bench:
        sagemaker, name = bench.client("sagemaker"), NAMES["cluster"]
        bench.fault(fail_lifecycle={"group": "head-group", "times": 1})
        sagemaker.create_cluster(**bench.request(**FACTS["only_with"]))
        bench.advance(minutes=20)
        found = sagemaker.list_cluster_events(ClusterName=name, SortOrder="Ascending")["Events"]
        errors = [each for each in found if each["EventLevel"] == "Error"][:2]
        reasons = [events.failure(sagemaker, name, each["EventId"]) for each in errors]
    texts = [text.format(cluster=name, group="head-group") for text in FACTS["failed_instance"]]
    assert [each["Description"] for each in errors] == texts
    assert FACTS["failed_scripts"] in reasons[0]
    assert not reasons[1]
