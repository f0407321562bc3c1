"""The exporter of EFA's counters: what sysfs says at each scrape, of EFA devices and of no others."""

import os
import re
import threading
import urllib.request
from pathlib import Path

import pytest

from controllers.in_cluster import efa_exporter
from controllers.in_cluster.efa_exporter import COUNTERS, PREFIX, EfaExporter
from controllers.telemetry import serve
from tests.support.efa_sysfs import NEWER, OLDER, add_device


def exported(sys: Path) -> dict[str, float]:
    lines = [line for line in EfaExporter(sys).render().splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}


def of_device(name: str, counters: dict[str, int]) -> dict[str, float]:
    return {f'{PREFIX}{counter}{{device="{name}",port="1"}}': value for counter, value in counters.items()}


def test_it_exports_what_the_driver_counts_for_each_device_and_port(tmp_path: Path) -> None:
    add_device(tmp_path, "rdmap79s0", NEWER)
    add_device(tmp_path, "rdmap80s0", NEWER, pci="0000:50:00.0")
    both = of_device("rdmap79s0", NEWER) | of_device("rdmap80s0", NEWER)
    assert exported(tmp_path) == {"efa_devices": 2, "efa_unreadable": 0, **both}
    assert NEWER.keys() == COUNTERS.keys()


def test_an_older_driver_has_no_series_of_what_it_does_not_count(tmp_path: Path) -> None:
    add_device(tmp_path, "rdmap79s0", OLDER)
    assert exported(tmp_path) == {"efa_devices": 1, "efa_unreadable": 0, **of_device("rdmap79s0", OLDER)}


def test_devices_of_other_drivers_are_left_out(tmp_path: Path) -> None:
    add_device(tmp_path, "mlx5_0", {"rx_drops": 7}, driver="mlx5_core")
    software = tmp_path / "devices" / "virtual" / "infiniband" / "rxe0"
    software.mkdir(parents=True)
    (tmp_path / "class" / "infiniband" / "rxe0").symlink_to(software)
    assert exported(tmp_path) == {"efa_devices": 0, "efa_unreadable": 0}


def test_a_node_without_the_driver_has_no_device(tmp_path: Path) -> None:
    assert exported(tmp_path) == {"efa_devices": 0, "efa_unreadable": 0}


def test_a_counter_that_cannot_be_read_is_counted_and_the_others_stay(tmp_path: Path) -> None:
    folder = add_device(tmp_path, "rdmap79s0", {"rx_drops": 3, "tx_bytes": 4})
    (folder / "rx_drops").write_text("\n")
    (folder / "tx_bytes").unlink()
    (folder / "tx_bytes").mkdir()
    (folder / "rx_bytes").write_text("5\n")
    expected = of_device("rdmap79s0", {"rx_bytes": 5})
    assert exported(tmp_path) == {"efa_devices": 1, "efa_unreadable": 2, **expected}


def test_a_device_without_any_counter_counts_as_unreadable(tmp_path: Path) -> None:
    """A container's own /sys shows the device in this way: Linux gives counters only to the node's namespace."""
    add_device(tmp_path, "rdmap79s0", {})
    add_device(tmp_path, "rdmap80s0", {}, pci="0000:50:00.0")
    assert exported(tmp_path) == {"efa_devices": 2, "efa_unreadable": 2}


def test_a_device_whose_driver_cannot_be_read_counts_as_unreadable(tmp_path: Path) -> None:
    driver = add_device(tmp_path, "rdmap79s0", OLDER).parents[2] / "device" / "driver"
    driver.unlink()
    driver.write_text("")
    assert exported(tmp_path) == {"efa_devices": 0, "efa_unreadable": 1}


def test_a_scrape_does_not_wait_for_a_device_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(efa_exporter, "_PATIENCE_SECONDS", 0.01)
    counter = add_device(tmp_path, "rdmap79s0", {}) / "rx_drops"
    os.mkfifo(counter)
    exporter = EfaExporter(tmp_path)
    stuck = threading.Thread(target=exporter.render)
    stuck.start()
    # Opening for writing waits for the reader: the first scrape is inside.
    with counter.open("w") as device:
        assert "efa_unreadable 1\n" in exporter.render()
        device.write("3\n")
    stuck.join()


def test_metrics_are_served_with_help_and_type(tmp_path: Path) -> None:
    add_device(tmp_path, "rdmap79s0", NEWER)
    server = serve("127.0.0.1:0", EfaExporter(tmp_path), {"/healthz": lambda: ""})
    address = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    with urllib.request.urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    server.shutdown()
    typed = dict(re.findall(r"# TYPE (\S+) (\S+)", text))
    assert typed == {
        "efa_devices": "gauge",
        "efa_unreadable": "gauge",
        **{PREFIX + name: "counter" for name in COUNTERS},
    }
    assert re.findall(r"# HELP (\S+)", text) == list(typed)
