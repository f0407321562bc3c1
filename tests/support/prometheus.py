"""A real Prometheus for tests, and answers to PromQL."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedded_account.machine.processes import free_port
from rehearsal.prometheus import UnavailableError, ensure
from tests.support.waiting import wait_until


def programs() -> dict[str, Path]:
    """Return Prometheus and promtool; skip the test where apt cannot fetch them."""
    try:
        return ensure()
    except UnavailableError as error:
        pytest.skip(f"Debian's package prometheus cannot be had: {error}")


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    address: str

    def series(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query, each with its labels and value."""
        answer = self._get("query", query=expression)
        return list(answer["result"])

    def healthy_targets(self) -> set[str]:
        """Return the jobs of all targets that answered their last scrape."""
        return {target["labels"]["job"] for target in self._get("targets")["activeTargets"] if target["health"] == "up"}

    def dropped(self) -> list[dict[str, str]]:
        """Return the discovered labels of targets that no job keeps."""
        return [target["discoveredLabels"] for target in self._get("targets")["droppedTargets"]]

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        address = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - this test's own Prometheus
            data: dict[str, Any] = json.load(answer)["data"]
        return data


@contextmanager
def running(files: Mapping[str, str], folder: Path) -> Iterator[Prometheus]:
    """Run Prometheus with these files of configuration, `prometheus.yaml` among them, until the block ends."""
    for name, text in files.items():
        (folder / name).write_text(text)
    port = free_port()
    argv = [
        str(programs()["prometheus"]),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    with (folder / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: _is_ready(prometheus, process, folder), "Prometheus")
            yield prometheus
        finally:
            process.terminate()


def _is_ready(prometheus: Prometheus, process: "subprocess.Popen[bytes]", folder: Path) -> bool:
    assert process.poll() is None, (folder / "log").read_text()
    try:
        with urllib.request.urlopen(f"{prometheus.address}/-/ready"):  # noqa: S310 - this test's own Prometheus
            return True
    except OSError:
        time.sleep(0.1)
        return False
