"""A real Prometheus and a real Alertmanager for tests, and answers to PromQL."""

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from embedded_account.machine.processes import free_port
from rehearsal.in_cluster import ALERTMANAGER, PROMETHEUS, UnavailableError, ensure
from tests.support.waiting import wait_until

# Debian's build reads its templates below /usr/share, where nothing may be installed.
_IN_NAMESPACE: Final = ("unshare", "--map-root-user", "--mount")


def programs(package: str = PROMETHEUS) -> dict[str, Path]:
    """Return the programs of Debian's package by name; skip the test where apt cannot fetch it."""
    try:
        return ensure(package)
    except UnavailableError as error:
        pytest.skip(f"Debian's package {package} cannot be had: {error}")


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
        # Alerts that fire before Prometheus has found Alertmanager are lost, and by default repeated after a minute.
        "--rules.alert.resend-delay=1s",
        "--log.level=warn",
    ]
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    with _serving(argv, prometheus.address, folder, {}):
        yield prometheus


@contextmanager
def running_alertmanager(text: str, folder: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Run Alertmanager with this configuration and environment until the block ends; yield its HOST:PORT."""
    (folder / "alertmanager.yaml").write_text(text)
    address = f"127.0.0.1:{free_port()}"
    program = programs(ALERTMANAGER)[ALERTMANAGER]
    _require_namespaces()
    argv = [
        *_IN_NAMESPACE,
        *("sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', str(program.parents[1] / "share")),
        str(program),
        f"--config.file={folder / 'alertmanager.yaml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    with _serving(argv, f"http://{address}", folder, variables):
        yield address


def _require_namespaces() -> None:
    refused = subprocess.run([*_IN_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(f"Debian's Alertmanager needs a mount namespace: {refused.stderr.strip()}")


@contextmanager
def _serving(argv: list[str], address: str, folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Run a program of Prometheus until the block ends; the block begins when the program is ready."""
    own = {**os.environ, **variables}
    with (folder / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log, env=own) as process:
        try:
            wait_until(lambda: _is_ready(address, process, folder), f"an answer of {address}")
            yield
        finally:
            process.terminate()


def _is_ready(address: str, process: "subprocess.Popen[bytes]", folder: Path) -> bool:
    assert process.poll() is None, (folder / "log").read_text()
    try:
        with urllib.request.urlopen(f"{address}/-/ready"):  # noqa: S310 - this test's own program
            return True
    except OSError:
        time.sleep(0.1)
        return False
