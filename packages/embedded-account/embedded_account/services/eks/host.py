"""The Kubernetes control planes of the account's EKS clusters."""

import threading
import time
from typing import Protocol

from embedded_account.context import Account
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.kubernetes.pods.programs import IMAGE_BUILD
from embedded_account.kubernetes.running import Plane, RunningCluster


class PlaneMaker(Protocol):
    """Makes the control plane of one cluster."""

    def __call__(self, account: Account, name: str, issuer: str) -> Plane:
        """Return a control plane that has not been started."""


def make_control_plane(account: Account, name: str, issuer: str) -> Plane:
    """A real control plane that asks the account who may come in."""
    plane = ControlPlane(
        account.directory / "clusters" / name,
        Binaries(account.binaries),
        name=name,
        authenticator_url=account.authenticator_url(name),
        issuer=issuer,
        played_elsewhere=(IMAGE_BUILD,),
    )
    plane.failed = account.failed
    return plane


class ClusterHost:
    """Starts and stops control planes, one per EKS cluster."""

    def __init__(self, account: Account, make: PlaneMaker = make_control_plane) -> None:
        self._account = account
        self._make = make
        self._lock = threading.Lock()
        self._running: dict[str, RunningCluster] = {}

    def start(self, name: str, issuer: str) -> RunningCluster:
        """Start a fresh control plane (5 s). Raises ProcessError or BinariesError, which name the program."""
        plane = self._make(self._account, name, issuer)
        began = time.monotonic()
        plane.start()
        seconds = round(time.monotonic() - began, 3)
        cluster = RunningCluster(name, issuer, plane, Nodes(plane.api))
        with self._lock:
            self._running[name] = cluster
        self._account.journal.record(
            "eks", action="control plane started", cluster=name, endpoint=plane.endpoint, seconds=seconds
        )
        return cluster

    def stop(self, name: str) -> None:
        """End the control plane and wipe its data; nothing happens when there is none."""
        with self._lock:
            cluster = self._running.pop(name, None)
        if cluster:
            cluster.control_plane.stop()
            self._account.journal.record("eks", action="control plane stopped", cluster=name)

    def stop_all(self) -> None:
        """End every control plane."""
        for name in self.names():
            self.stop(name)

    def names(self) -> list[str]:
        """Names of the clusters whose control plane runs."""
        with self._lock:
            return sorted(self._running)

    def all(self) -> list[RunningCluster]:
        """The clusters whose control plane runs."""
        with self._lock:
            return list(self._running.values())

    def get(self, name: str) -> RunningCluster:
        """Return a running cluster; KeyError when there is none of this name."""
        with self._lock:
            return self._running[name]

    def of_issuer(self, issuer: str) -> RunningCluster | None:
        """Return the cluster whose service account tokens have this issuer."""
        with self._lock:
            return next((cluster for cluster in self._running.values() if cluster.issuer == issuer), None)
