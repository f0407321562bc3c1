"""Prometheus' own rule tests: each alert fires in its fault, and is silent in drills that are no fault."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config import load
from config.container_insights import ALARMS
from config.estimates import creation
from k8s_charts.in_cluster.alerts import ALERTS, GPU_RUNBOOK, RUNBOOK, SLEEP_RUNBOOK, rule_groups
from rehearsal.paths import REPOSITORY
from tests.charts.in_cluster.scraped import SCRAPED, files
from tests.support.prometheus import programs

Series = dict[str, str]
# promtool's notation: FIRSTxCOUNT repeats a value, A+BxN grows by B. A minute between two values.
RUN = '{run="train-1"}'
NODE = '{node="hyperpod-i-0",instance_group="gpus"}'
GPU = '{node="hyperpod-i-0",instance_group="gpus",gpu="0",pod="rayml-gpu-group-worker-x7k2p",xid="%s"}'
EFA = '{node="hyperpod-i-0",instance_group="gpus",device="rdmap79s0",port="1"}'
BUILD = '{build="ray-image-1"}'
SLEEPER = '{group="gpus",pod="sleeper-0"}'
HEALTH = '{node="hyperpod-i-0",instance_group="gpus",status="%s"}'
MINUTES = 240
EVERY_FIVE_MINUTES = [f"{minute}m" for minute in range(0, MINUTES, 5)]


def healthy(**changes: str) -> Series:
    """Return a healthy run, node, reaper and exporter over four hours; a change replaces a series."""
    usual = {
        "ray_run_trains": f"1x{MINUTES}",
        "ray_run_step": f"0+10x{MINUTES}",
        "ray_run_goodput_ratio": f"0.95x{MINUTES}",
        # A checkpoint each half hour.
        "ray_run_checkpoint_timestamp_seconds": " ".join(str(minute // 30 * 1800) for minute in range(MINUTES)),
        "ray_run_lease_renewal_timestamp_seconds": f"0+60x{MINUTES}",
        "ray_reaper_last_look_timestamp_seconds": f"0+60x{MINUTES}",
        "up{reaper}": f"1x{MINUTES}",
        "up{exporter}": f"1x{MINUTES}",
        "hyperpod_node_ready": f"1x{MINUTES}",
        "hyperpod_node_schedulable Schedulable": f"1x{MINUTES}",
        "hyperpod_node_deep_health_check Passed": f"1x{MINUTES}",
        "up{dcgm}": f"1x{MINUTES}",
        "up{efa}": f"1x{MINUTES}",
        "efa_devices": f"32x{MINUTES}",
        "efa_unreadable": f"0x{MINUTES}",
        "node_amazonefa_rx_drops": f"0x{MINUTES}",
        "DCGM_EXP_XID_ERRORS_COUNT": f"0x{MINUTES}",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": f"0x{MINUTES}",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": f"0x{MINUTES}",
        "ray_image_build_failed": f"0x{MINUTES}",
        "ray_sleeper_wanted_nodes": f"1x{MINUTES}",
        "ray_sleeper_last_look_timestamp_seconds": f"0+60x{MINUTES}",
    }
    return usual | changes


def named(series: str) -> str:
    """Return a series of `healthy` with its labels."""
    name, _, status = series.partition(" ")
    if name in ("up{dcgm}", "up{efa}"):
        return f'up{{job="{name[3:-1]}",{NODE[1:]}'
    if name.startswith(("DCGM", "node_amazonefa")):
        return name + (GPU % status if name.startswith("DCGM") else EFA)
    if name.startswith("up"):
        return f'up{{job="{name[3:-1]}"}}'
    if name.startswith(("ray_image_build", "ray_sleeper")):
        return name + (BUILD if name == "ray_image_build_failed" else SLEEPER)
    if name.startswith("ray_run"):
        return name + RUN
    of_node = name.startswith(("hyperpod", "efa"))
    return name + (HEALTH % status if status else NODE if of_node else '{pod="ray-reaper-0"}')


OLD = "0x240"
FAULTS: dict[str, Series] = {
    "JobStalled": healthy(ray_run_step="0+10x60 600x180"),
    "CheckpointTooOld": healthy(ray_run_checkpoint_timestamp_seconds=OLD),
    "GoodputLow": healthy(ray_run_goodput_ratio="0.95x60 0.3x180"),
    "SupervisorDown": healthy(ray_run_lease_renewal_timestamp_seconds="0+60x60 3600x180"),
    "ReaperDown": healthy(**{"up{reaper}": "1x60 0x180"}),
    "ReaperBlind": healthy(ray_reaper_last_look_timestamp_seconds="0+60x60 3600x180"),
    "ExporterDown": healthy(**{"up{exporter}": "1x60 0x180"}),
    "NodeNotReady": healthy(hyperpod_node_ready="1x60 0x180"),
    "NodeUnhealthy": healthy(
        **{
            "hyperpod_node_schedulable Schedulable": "1x60 stale",
            "hyperpod_node_schedulable UnschedulablePendingReplacement": "_x60 0x180",
        }
    ),
    "DeepHealthCheckFailed": healthy(
        **{
            "hyperpod_node_deep_health_check Passed": "1x60 stale",
            "hyperpod_node_deep_health_check Failed": "_x60 1x180",
        }
    ),
    "XidError": healthy(
        **{"DCGM_EXP_XID_ERRORS_COUNT": "0x200 stale", "DCGM_EXP_XID_ERRORS_COUNT 79": "_x200 1x10 stale"}
    ),
    "EccUncorrectable": healthy(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL="0x60 2x180"),
    "RowRemapFailed": healthy(DCGM_FI_DEV_ROW_REMAP_FAILURE="0x60 1x180"),
    "GpuExporterDown": healthy(**{"up{dcgm}": "1x60 0x180"}),
    # 120 packets a minute.
    "EfaDrops": healthy(node_amazonefa_rx_drops="0x60 0+120x180"),
    "EfaExporterDown": healthy(**{"up{efa}": "1x60 0x180"}),
    "ImageBuildFailed": healthy(ray_image_build_failed="0x60 1x180"),
    # A run wants the group's node, which never comes.
    "GroupDoesNotWake": healthy(ray_sleeper_wanted_nodes="0x60 1x180", hyperpod_node_ready="1x30 stale"),
    "SleeperBlind": healthy(ray_sleeper_last_look_timestamp_seconds="0+60x60 3600x180"),
}
"""What each alert is for."""

DRILLS: dict[str, Series] = {
    "nothing happens": healthy(),
    "a run waits for resources for hours": healthy(
        ray_run_trains="1x60 0x180",
        ray_run_step="0+10x60 600x180",
        ray_run_checkpoint_timestamp_seconds=OLD,
        ray_run_goodput_ratio="0.95x60 0.2x180",
    ),
    "a run ends": healthy(
        **{
            name: f"{value.split()[0] if ' ' not in value else '0x60'} stale"
            for name, value in healthy().items()
            if name.startswith("ray_run")
        }
        | {
            "ray_run_step": "0+10x60 stale",
            "ray_run_trains": "1x60 stale",
            "ray_run_goodput_ratio": "0.95x60 stale",
            "ray_run_lease_renewal_timestamp_seconds": "0+60x60 stale",
        }
    ),
    "a step takes a quarter of an hour": healthy(ray_run_step=" ".join(str(m // 15) for m in range(MINUTES))),
    "a lost node is replaced within ten minutes": healthy(hyperpod_node_ready="1x60 0x10 1x170"),
    "a node is rebooted within twenty minutes": healthy(
        **{
            "hyperpod_node_schedulable Schedulable": "1x60 _x20 1x160",
            "hyperpod_node_schedulable UnschedulablePendingReboot": "_x60 0x20 stale",
        }
    ),
    "a supervisor is replaced within five minutes": healthy(
        ray_run_lease_renewal_timestamp_seconds="0+60x60 3600x5 3960+60x170"
    ),
    "one of two reapers restarts": healthy(**{"up{reaper}": "1x240"}),
    "a job without the library prints no step and no goodput": {
        name: values for name, values in healthy().items() if name not in ("ray_run_step", "ray_run_goodput_ratio")
    },
    "applications of all four kinds fail on a GPU": healthy(
        **{f"DCGM_EXP_XID_ERRORS_COUNT {xid}": "_x60 2x5 stale" for xid in (0, 13, 31, 43, 45)}
    ),
    "the exporter of GPUs restarts within ten minutes": healthy(**{"up{dcgm}": "1x60 0x10 1x170"}),
    "EFA drops some packets each minute": healthy(node_amazonefa_rx_drops="0+30x240"),
    "EFA drops many packets for ten minutes": healthy(node_amazonefa_rx_drops="0x60 0+6000x10 60000x170"),
    "a node with EFA restarts and its counters begin anew": healthy(
        **{"up{efa}": "1x60 0x10 1x170", "node_amazonefa_rx_drops": "5000x60 _x10 0x170"}
    ),
    "a group sleeps for an hour and wakes within twenty minutes": healthy(
        ray_sleeper_wanted_nodes="1x60 0x90 1x90", hyperpod_node_ready="1x62 _x105 1x70"
    ),
    "one of two sleepers restarts": healthy(ray_sleeper_last_look_timestamp_seconds="0+60x60 _x4 3900+60x170"),
    "a cluster in which no group sleeps": {
        name: values for name, values in healthy().items() if not name.startswith("ray_sleeper_wanted")
    },
    "a cluster without EFA": {
        name: values for name, values in healthy().items() if not name.startswith(("efa", "node_ama", "up{efa}"))
    },
    "a cluster without GPUs": {
        name: values for name, values in healthy().items() if not name.startswith(("DCGM", "up{dcgm}"))
    },
}
"""What happens without anybody having to come."""


def case(name: str, series: Series, alerts: dict[str, list[Any]], times: Sequence[str] = ("3h55m",)) -> dict[str, Any]:
    """Return a test of promtool: after almost four hours these alerts fire, and at no `times` others do."""
    inputs = [{"series": named(each), "values": values} for each, values in series.items()]
    expected = [
        {"eval_time": time, "alertname": alert.name, "exp_alerts": alerts.get(alert.name, [])}
        for time in times
        for alert in ALERTS
    ]
    return {"name": name, "interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def promtool(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(programs()["promtool"]), *argv], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with Prometheus' two files."""
    made = tmp_path_factory.mktemp("promtool")
    for name, text in files(
        dict.fromkeys(SCRAPED, 1), {"groups": rule_groups(gpus=True, efa=True, sleep=True)}
    ).items():
        (made / name).write_text(text)
    return made


def firing(folder: Path, tests: list[dict[str, Any]]) -> "subprocess.CompletedProcess[str]":
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.json").write_text(json.dumps(whole))
    return promtool(folder, "test", "rules", "tests.json")


def test_promtool_accepts_configuration_and_rules(folder: Path) -> None:
    checked = promtool(folder, "check", "config", "--syntax-only", "prometheus.yaml")
    assert checked.returncode == 0, checked.stderr
    checked = promtool(folder, "check", "rules", "rules.yaml")
    assert f"SUCCESS: {len(ALERTS)} rules found" in checked.stdout, checked.stderr


def test_each_alert_has_a_fault_in_which_only_it_fires(folder: Path) -> None:
    assert list(FAULTS) == [alert.name for alert in ALERTS]
    silent = firing(folder, [case(name, series, {}) for name, series in FAULTS.items()])
    assert silent.returncode == 1
    # promtool names each alert that fires although nothing is expected.
    fired = [line.split("alertname: ")[1].split(",")[0] for line in silent.stderr.splitlines() if "alertname: " in line]
    assert fired == list(FAULTS), silent.stdout + silent.stderr


def test_no_alert_fires_in_a_drill_that_is_no_fault(folder: Path) -> None:
    passed = firing(folder, [case(name, series, {}, EVERY_FIVE_MINUTES) for name, series in DRILLS.items()])
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_an_alert_says_which_run_it_is_about_and_where_its_runbook_is(folder: Path) -> None:
    labels = {"severity": "warning", "run": "train-1"}
    said = {
        "summary": "Run train-1 uses only 30% of its paid time.",
        "runbook": f"{RUNBOOK}#goodputlow",
    }
    expected = {"GoodputLow": [{"exp_labels": labels, "exp_annotations": said}]}
    passed = firing(folder, [case("goodput", FAULTS["GoodputLow"], expected)])
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_an_alert_about_a_gpu_names_it_and_its_error() -> None:
    [rule] = [rule for rule in rule_groups(gpus=True, efa=True, sleep=True)[0]["rules"] if rule["alert"] == "XidError"]
    assert all(f"$labels.{label} }}" in rule["annotations"]["summary"] for label in ("node", "gpu", "xid"))


@pytest.mark.parametrize(
    "series",
    [{"efa_devices": "32x60 0x180"}, {"efa_unreadable": "0x60 1x180"}],
    ids=["the devices are gone", "a counter cannot be read"],
)
def test_an_exporter_that_cannot_see_efa_is_told_like_one_that_is_gone(folder: Path, series: Series) -> None:
    silent = firing(folder, [case("blind", healthy(**series), {})])
    assert silent.stderr.count("alertname: ") == 1
    assert "alertname: EfaExporterDown" in silent.stderr


def test_a_cluster_without_gpus_efa_or_sleep_has_no_alert_about_them() -> None:
    def missing(*, gpus: bool = True, efa: bool = True, sleep: bool = True) -> set[str]:
        names = {rule["alert"] for rule in rule_groups(gpus=gpus, efa=efa, sleep=sleep)[0]["rules"]}
        return {alert.name for alert in ALERTS if alert.name not in names}

    assert missing(gpus=False) == {"XidError", "EccUncorrectable", "RowRemapFailed", "GpuExporterDown"}
    assert missing(efa=False) == {"EfaDrops", "EfaExporterDown"}
    assert missing(sleep=False) == {"GroupDoesNotWake", "SleeperBlind"}


def test_the_exporter_that_is_gone_is_no_group_that_does_not_wake(folder: Path) -> None:
    series = healthy(hyperpod_node_ready="1x60 stale", **{"up{exporter}": "1x60 0x180"})
    silent = firing(folder, [case("blind", series, {})])
    assert silent.stderr.count("alertname: ") == 1
    assert "alertname: ExporterDown" in silent.stderr


def test_a_sleeper_that_has_no_series_is_blind(folder: Path) -> None:
    series = {name: values for name, values in healthy().items() if not name.startswith("ray_sleeper")}
    silent = firing(folder, [case("gone", series, {})])
    assert silent.stderr.count("alertname: ") == 1
    assert "alertname: SleeperBlind" in silent.stderr


def test_a_group_may_take_as_long_to_wake_as_its_nodes_take_at_most() -> None:
    [alert] = [alert for alert in ALERTS if alert.name == "GroupDoesNotWake"]
    assert alert.seconds == creation.later(ray=False)[creation.NODES].high * 60


def test_the_alert_of_dropped_packets_has_the_threshold_of_cloudwatchs_alarm() -> None:
    [alert] = [alert for alert in ALERTS if alert.name == "EfaDrops"]
    [alarm] = [alarm for alarm in ALARMS if alarm.name == "EfaDrops"]
    assert (alert.limit, alert.seconds) == (f">= {alarm.threshold(load('dev'))}", alarm.periods * 300)


@pytest.mark.parametrize("page", [RUNBOOK, GPU_RUNBOOK, SLEEP_RUNBOOK])
def test_every_alert_has_its_runbook(page: str) -> None:
    headings = {
        line.removeprefix("### ").strip().lower()
        for line in (REPOSITORY / page).read_text().splitlines()
        if line.startswith("### ")
    }
    assert {alert.anchor for alert in ALERTS if alert.page == page} <= headings
