"""The Kubernetes control planes of the account's EKS clusters."""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from embedded_account.context import Account
from embedded_account.kubernetes.building.binaries import Binaries, are_built, ensure
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.kubernetes.pods.identity import AwsAddress
from embedded_account.kubernetes.running import Plane, RunningCluster

_log = logging.getLogger(__name__)


class PlaneMaker(Protocol):
    """A function that creates the control plane of one cluster."""

    def __call__(self, account: Account, name: str, issuer: str, version: str) -> Plane:
        """Return a control plane that has not been started."""


def make_control_plane(account: Account, name: str, issuer: str, version: str) -> Plane:
    """Return a real control plane, not started, whose API server authenticates tokens with the account."""
    programs = Binaries(account.binaries)
    if not are_built(programs):
        ensure(programs.directory.parent, _log.info)
    plane = ControlPlane(
        account.directory / "clusters" / name,
        programs,
        name=name,
        authenticator_url=account.authenticator_url(name),
        issuer=issuer,
        played_elsewhere=account.played_images,
        real_rays=account.real_rays,
        kubernetes=version,
        aws=AwsAddress(account.endpoint, account.region),
    )
    plane.failed = account.failed
    return plane


class ClusterHost:
    """The control planes of the account, one per EKS cluster."""

    def __init__(self, account: Account, make: PlaneMaker = make_control_plane) -> None:
        self._account = account
        self._make = make
        self._lock = threading.Lock()
        self._running: dict[str, RunningCluster] = {}
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="control-plane")
        self._prepared: dict[str, tuple[str, Future[Plane]]] = {}

    def prepare(self, name: str, issuer: str, version: str) -> None:
        """Begin to start the control plane of a cluster that is created later, with this issuer and version."""
        self._prepared[name] = version, self._starter.submit(self._start, name, issuer, version)

    def start(self, name: str, issuer: str, version: str) -> RunningCluster:
        """Return the cluster with a new control plane (3 to 5 s) or with the one that `prepare` started.

        Raises ProcessError or BinariesError, which name the program.
        """
        prepared, starting = self._prepared.pop(name, (version, None))
        plane = starting.result() if starting else self._start(name, issuer, version)
        if prepared != version:
            plane.upgrade(version)
        cluster = RunningCluster(name, issuer, plane, Nodes(plane.api))
        with self._lock:
            self._running[name] = cluster
        return cluster

    def _start(self, name: str, issuer: str, version: str) -> Plane:
        plane = self._make(self._account, name, issuer, version)
        began = time.monotonic()
        plane.start()
        seconds = round(time.monotonic() - began, 3)
        self._account.journal.record(
            "eks", action="control plane started", cluster=name, endpoint=plane.endpoint, seconds=seconds
        )
        return plane

    def upgrade(self, name: str, version: str) -> None:
        """Run a cluster's control plane as another version. Raises ProcessError or BinariesError."""
        began = time.monotonic()
        self.get(name).control_plane.upgrade(version)
        seconds = round(time.monotonic() - began, 3)
        self._account.journal.record(
            "eks", action="control plane upgraded", cluster=name, version=version, seconds=seconds
        )

    def stop(self, name: str) -> None:
        """Stop the control plane and delete its data, if the cluster has one."""
        with self._lock:
            cluster = self._running.pop(name, None)
        if cluster:
            cluster.control_plane.stop()
            self._account.journal.record("eks", action="control plane stopped", cluster=name)

    def stop_all(self) -> None:
        """Stop every control plane, also of clusters that were not created."""
        for name in self.names():
            self.stop(name)
        for _, prepared in self._prepared.values():
            if prepared.exception() is None:
                prepared.result().stop()
        self._prepared.clear()

    def names(self) -> list[str]:
        """Return the names of the clusters whose control plane runs, sorted."""
        with self._lock:
            return sorted(self._running)

    def all(self) -> list[RunningCluster]:
        """Return the clusters whose control plane runs."""
        with self._lock:
            return list(self._running.values())

    def get(self, name: str) -> RunningCluster:
        """Return the running cluster of this name. Raises KeyError."""
        with self._lock:
            return self._running[name]

    def of_issuer(self, issuer: str) -> RunningCluster | None:
        """Return the running cluster whose service account tokens have this issuer, or None."""
        with self._lock:
            return next((cluster for cluster in self._running.values() if cluster.issuer == issuer), None)
