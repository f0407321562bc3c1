"""Export the counters of a node's EFA devices for Prometheus.

EFA's driver shows each counter as a file: class/infiniband/DEVICE/ports/PORT/hw_counters/NAME in sysfs. Only drivers
of newer kernels have all of them (Linux, drivers/infiniband/hw/efa/efa_verbs.c), and only Nitro v4 and newer count
retransmissions. The metrics have the names of AWS's own exporter (aws-samples/awsome-distributed-training,
amazon_efa_linux.go), so that queries which were written for it also work here.
"""

import argparse
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controllers.telemetry import Metrics, end_on_signals, log, serve

NAME: Final = "efa-exporter"

COUNTERS: Final[Mapping[str, str]] = {
    "tx_bytes": "Bytes sent.",
    "tx_pkts": "Packets sent.",
    "rx_bytes": "Bytes received.",
    "rx_pkts": "Packets received.",
    "rx_drops": "Packets received and dropped.",
    "send_bytes": "Bytes of send operations.",
    "send_wrs": "Send operations.",
    "recv_bytes": "Bytes of receive operations.",
    "recv_wrs": "Receive operations.",
    "rdma_read_bytes": "Bytes that RDMA reads of this device received.",
    "rdma_read_wrs": "RDMA reads of this device.",
    "rdma_read_wr_err": "RDMA reads of this device that failed.",
    "rdma_read_resp_bytes": "Bytes sent in response to RDMA reads of others.",
    "rdma_write_bytes": "Bytes that RDMA writes of this device sent.",
    "rdma_write_wrs": "RDMA writes of this device.",
    "rdma_write_wr_err": "RDMA writes of this device that failed.",
    "rdma_write_recv_bytes": "Bytes received by RDMA writes of others.",
    "retrans_bytes": "Bytes sent again.",
    "retrans_pkts": "Packets sent again.",
    "retrans_timeout_events": "Timeouts after which packets took another path.",
    "impaired_remote_conn_events": "Connections whose rate was reduced because they were impaired.",
    "unresponsive_remote_events": "Connections whose other end did not respond.",
}
"""The driver's counters of a port, by the file's name; each with its help text."""

PREFIX: Final = "node_amazonefa_"

_DRIVER: Final = "efa"
# Prometheus waits ten seconds.
_PATIENCE_SECONDS: Final = 5.0


@dataclass
class _Found:
    """What one look at sysfs found: values by counter, device and port; devices; and what could not be read."""

    values: dict[tuple[str, str, str], int] = field(default_factory=dict)
    devices: int = 0
    unreadable: int = 0


class EfaExporter(Metrics):
    """The counters of the EFA devices below `sys`, as they are at each scrape."""

    def __init__(self, sys: Path) -> None:
        super().__init__()
        self.describe("efa_devices", "gauge", "EFA devices of the node.")
        self.describe("efa_unreadable", "gauge", "Counters that could not be read, and devices without any.")
        self._devices = sys / "class" / "infiniband"
        self._reading = threading.Lock()

    def render(self) -> str:
        """Return the metrics in Prometheus' text format; no counters while an earlier scrape still reads them."""
        # A file of a broken device may never answer. Its reader keeps the lock, and no further one joins it.
        if not self._reading.acquire(timeout=_PATIENCE_SECONDS):
            self.set("efa_unreadable", 1)
            return super().render()
        try:
            found = self._read()
        finally:
            self._reading.release()
        self.set("efa_devices", found.devices)
        self.set("efa_unreadable", found.unreadable)
        return super().render() + "".join(_family(name, found) for name in COUNTERS)

    def _read(self) -> _Found:
        found = _Found()
        for device in _folder(self._devices):
            try:
                if (device / "device" / "driver").readlink().name != _DRIVER:
                    continue
            except FileNotFoundError:
                # A device of software, such as rxe.
                continue
            except OSError:
                found.unreadable += 1
                continue
            found.devices += 1
            before = len(found.values) + found.unreadable
            for port in _folder(device / "ports"):
                _read(device.name, port, found)
            found.unreadable += len(found.values) + found.unreadable == before
        return found


def _read(device: str, port: Path, found: _Found) -> None:
    for name in COUNTERS:
        try:
            found.values[name, device, port.name] = int((port / "hw_counters" / name).read_text())
        except FileNotFoundError:
            # An older driver.
            continue
        except (OSError, ValueError):
            found.unreadable += 1


def _folder(path: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is missing or cannot be read."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _family(name: str, found: _Found) -> str:
    """Return the series of a counter with their help text; empty without series."""
    lines = "".join(_series(name, found))
    metric = PREFIX + name
    return f"# HELP {metric} {COUNTERS[name]}\n# TYPE {metric} counter\n{lines}" if lines else ""


def _series(name: str, found: _Found) -> Iterator[str]:
    for (counter, device, port), value in found.values.items():
        if counter == name:
            yield f'{PREFIX}{name}{{device="{device}",port="{port}"}} {value}\n'


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Export the counters of EFA devices for Prometheus.")
    parser.add_argument("--sys", type=Path, required=True, help="folder with the node's `class` and `devices` of /sys")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics and /healthz")
    return parser.parse_args()


def main() -> None:
    """Export until SIGTERM or SIGINT."""
    arguments = _arguments()
    ending = threading.Event()
    end_on_signals(ending)
    serve(arguments.listen, EfaExporter(arguments.sys), {"/healthz": lambda: ""})
    log("started", controller=NAME)
    ending.wait()
    log("ended", controller=NAME)


if __name__ == "__main__":
    main()
