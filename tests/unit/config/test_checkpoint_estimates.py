"""The estimate of checkpoints, and what `ops check` says of it."""

from typing import Any

import pytest

import config
from config.estimates.checkpoints import CheckpointEstimate, estimate
from config.model import Checkpoints, EksEnvironment, ExistingFileSystem, Fsx
from config.rules import findings


def environment(parameters: str, **fsx: Any) -> EksEnvironment:
    keys = {key: fsx.pop(key) for key in ("keep", "every_minutes") if key in fsx}
    dev = config.load("dev")
    given = {**dev.fsx.model_dump(exclude_unset=True), **fsx, "checkpoints": Checkpoints(parameters=parameters, **keys)}
    return dev.model_copy(update={"fsx": Fsx(**given)})


def made(parameters: str, **fsx: Any) -> CheckpointEstimate:
    found = estimate(environment(parameters, **fsx))
    assert found
    return found


def warned(parameters: str, **fsx: Any) -> list[str]:
    return [found.rule for found in findings(environment(parameters, **fsx)) if found.key.startswith("fsx.checkpoints")]


@pytest.mark.parametrize(("parameters", "gb", "minutes"), [("7B", 84, 4.8), ("70B", 840, 47.8), ("350M", 4.2, 0.24)])
def test_size_and_time_on_dev_s_file_system(parameters: str, gb: float, minutes: float) -> None:
    found = made(parameters)
    assert found.size == pytest.approx(gb * 1e9)
    assert (found.seconds or 0) / 60 == pytest.approx(minutes, rel=0.01)


def test_a_run_needs_room_for_what_it_keeps_and_resumed_from_and_for_the_next_checkpoint() -> None:
    assert made("70B").most == 4
    assert made("70B").most * made("70B").size == 3360e9
    assert made("70B").capacity == pytest.approx(1288e9, rel=0.001)
    assert [made("70B", keep=keep, capacity_gib=2400).fit for keep in (2, 1)] == [False, True]
    assert [made("70B", keep=keep).fit for keep in (2, 1)] == [False, False]


@pytest.mark.parametrize(
    ("parameters", "fsx", "rules"),
    [
        ("70B", {}, ["V85", "V86"]),
        ("70B", {"capacity_gib": 4800, "throughput_mbps_per_tib": 1000}, []),
        ("70B", {"capacity_gib": 4800}, ["V86"]),
        ("70B", {"capacity_gib": 4800, "every_minutes": 150}, []),
        ("7B", {}, []),
        ("7B", {"every_minutes": 45}, ["V86"]),
        ("70B", {"capacity_gib": 1300}, []),
    ],
)
def test_checkpoints_are_warned_of_that_do_not_fit_or_take_long(
    parameters: str, fsx: dict[str, Any], rules: list[str]
) -> None:
    assert warned(parameters, **fsx) == rules


def test_of_an_existing_file_system_the_size_alone_is_known() -> None:
    existing = ExistingFileSystem(id="fs-0fedcba9876543210", mount_name="zyxwvuts")
    fsx = Fsx(existing=existing, capacity_gib=1200, checkpoints=Checkpoints(parameters="70B"))
    beside = config.load("existing-vpc").model_copy(update={"fsx": fsx})
    found = estimate(beside)
    assert found
    assert (found.seconds, found.fit) == (None, False)
    assert [one.rule for one in findings(beside) if one.key.startswith("fsx")] == ["V85"]


def test_without_the_key_nothing_is_estimated() -> None:
    assert estimate(config.load("dev")) is None
