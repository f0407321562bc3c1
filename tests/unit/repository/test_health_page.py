"""docs/explain/health.md lists what the code knows of HyperPod's health, and what AWS's API model has."""

import re
from typing import Any, Final, get_args

import botocore.session
import pytest

from config import labels
from config.model.hyperpod import InstanceGroup
from controllers import decision, reaper
from embedded_account.hyperpod.model import DeepCheck, NodeHealth
from k8s_charts.helm import hyperpod_dependencies
from ops.readiness.nodes import CHECKING
from ops.watch.logs import STREAMS
from tests.tiers import REPOSITORY

PAGE: Final = (REPOSITORY / "docs" / "explain" / "health.md").read_text()
_PREFIX: Final = "sagemaker.amazonaws.com/"


@pytest.fixture(scope="module")
def sagemaker() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


def column(header: str) -> list[str]:
    """Return the first column of the tables whose first header is this word, without backticks."""
    tables = re.findall(rf"^\| {header} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [line.split("|")[1].strip().strip("`") for table in tables for line in table.splitlines()]


def test_every_value_of_both_labels_is_explained() -> None:
    values = column("value")
    assert values == [*NodeHealth, *DeepCheck]
    assert {labels.NODE_SCHEDULABLE, labels.DEEP_HEALTH_PASSED, *decision.PENDING} <= set(values)


def test_every_label_is_one_that_the_code_reads_or_is_for_people_only() -> None:
    named = set(re.findall(rf"`({re.escape(_PREFIX)}[\w/-]+)`", PAGE))
    read = {labels.NODE_HEALTH_LABEL, labels.DEEP_HEALTH_LABEL, labels.INSTANCE_GROUP_LABEL}
    for_people = set(column("only for people"))
    assert decision.HEALTH_LABEL == labels.NODE_HEALTH_LABEL
    assert named == read | for_people
    assert not read & for_people


def test_taint_is_the_one_that_device_plugins_tolerate() -> None:
    taint = hyperpod_dependencies._UNDER_CHECK
    assert f"`{taint['key']}={taint['value']}:{taint['effect']}`" in PAGE


def test_every_check_of_the_api_is_listed_with_what_is_supported(sagemaker: Any) -> None:
    assert column("check") == sagemaker.shape_for("DeepHealthCheckType").enum
    [supported] = [get_args(each) for each in get_args(InstanceGroup.model_fields["deep_health_checks"].annotation)[:1]]
    for check in column("check"):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{check}` |"))
        assert ("not supported here" in row) is (check not in supported)


def test_every_status_of_the_api_is_listed(sagemaker: Any) -> None:
    assert sorted(column("status")) == sorted(sagemaker.shape_for("ClusterInstanceStatus").enum)
    assert CHECKING in column("status")


def test_every_stream_is_listed_with_its_command() -> None:
    rows = {
        line.split("|")[1].strip(" `"): line for line in PAGE.splitlines() if line.startswith("| `") and "/<" in line
    }
    prefixes = {prefix: source for source, found in STREAMS.items() for prefix in found}
    assert {stream.partition("<")[0] for stream in rows} == set(prefixes)
    for stream, row in rows.items():
        assert f"`ops logs {prefixes[stream.partition('<')[0]]}`" in row


def test_every_event_is_listed(sagemaker: Any) -> None:
    assert column("event") == [
        *sagemaker.shape_for("ClusterEventLevel").enum,
        *(reason for reason, _ in reaper._EVENTS.values()),
    ]
