"""Verify network isolation on a live cluster: start probe pods, let them connect, remove them.

A NetworkPolicy looks the same whether the CNI enforces it or not: only a connection attempt shows the difference.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from k8s_charts.shared.names import SYSTEM_NAMESPACE
from ops.clients import REQUEST_TIMEOUT
from ops.errors import in_plain_words
from ops.isolation import probe
from ops.isolation.plan import SUBMITTER, Connection, Origin, job
from ops.readiness.conditions import is_ready_to_stay
from ops.readiness.workloads import blocking_reason

# Seconds. The VPC CNI applies a policy to a new pod one to two seconds after its start
# (aws-network-policy-agent#345), later on a busy node.
SETTLE: Final = 10
_REMOVAL: Final = 20
_DEADLINE_AFTER: Final = 60

# The container of `aws-node` in a public record of a cluster with vpc-cni v1.22.4 (August 2026).
_NODE_AGENT: Final = "aws-eks-nodeagent"
_ENFORCES: Final = "--enable-network-policy=true"
_STAND_IN: Final = "rehearsal/stand-in"
REHEARSED: Final = "a rehearsal does not enforce policies"
"""What `enforcement` says of the cluster of a rehearsal, whose add-ons run no program."""

_TEXTS: Final = {
    probe.CONNECTED: "open",
    probe.TIMED_OUT: "closed: no answer",
    probe.REFUSED: "closed: refused",
    probe.NO_SUCH_NAME: "closed: unknown host name",
    probe.NO_WAY: "closed: unreachable",
    probe.WITHOUT_TOKEN: "open without a token",
}

Say = Callable[[str], None]


class ProbeError(Exception):
    """The connections could not be tried; the message says why."""


@dataclass(frozen=True)
class ProbeOutcome:
    """The result of a connection attempt: `code` is the probe's exit code."""

    connection: Connection
    code: int

    @property
    def open(self) -> bool:
        """Whether the connection was opened."""
        return self.code in (probe.CONNECTED, probe.WITHOUT_TOKEN)

    @property
    def text(self) -> str:
        """The result in words."""
        return _TEXTS[self.code]

    @property
    def expected(self) -> bool:
        """Whether the result is the expected one."""
        return self.open is self.connection.open and self.code != probe.WITHOUT_TOKEN


@dataclass(frozen=True)
class Prober:
    """Runs probe pods with `image`: each waits `settle` seconds, then connects; all must end in `timeout` seconds."""

    api: kubernetes.client.ApiClient
    image: str
    timeout: float
    settle: float = SETTLE
    interval: float = 1.0

    def rehearse(self, origins: list[Origin]) -> None:
        """Let the API server check the Jobs in a dry run. Raises UnreachableError with the refusal."""
        with in_plain_words():
            for origin in origins:
                self._create(origin, "dry-run", dry_run="All")

    def try_all(self, origins: list[Origin], say: Say) -> list[ProbeOutcome]:
        """Start the pods, return the outcome of each connection, and always remove the pods.

        Raises ProbeError if a pod does not end in time, UnreachableError if the API refuses a request.
        """
        run = uuid.uuid4().hex[:6]
        with in_plain_words(), self._removed(origins, run, say):
            for origin in origins:
                self._create(origin, run)
                say(f"{origin.namespace}/{_name(origin, run)} tries {len(origin.connections)} connections")
            return self._outcomes(origins, run)

    @property
    def _batch(self) -> kubernetes.client.BatchV1Api:
        return kubernetes.client.BatchV1Api(self.api)

    def _create(self, origin: Origin, run: str, **options: str) -> None:
        deadline = self.timeout + _DEADLINE_AFTER
        made = job(origin, name=_name(origin, run), image=self.image, settle=self.settle, timeout=deadline)
        self._batch.create_namespaced_job(
            origin.namespace, made, field_validation="Strict", _request_timeout=REQUEST_TIMEOUT, **options
        )

    def _outcomes(self, origins: list[Origin], run: str) -> list[ProbeOutcome]:
        deadline = time.monotonic() + self.timeout
        waiting, found = list(origins), list[ProbeOutcome]()
        while waiting:
            for origin in list(waiting):
                pods = self._pods(origin, run)
                codes = _exit_codes(pods[0]) if pods else {}
                if len(codes) == len(origin.connections):
                    waiting.remove(origin)
                    found += [_outcome(connection, codes[connection.container]) for connection in origin.connections]
            if waiting and time.monotonic() >= deadline:
                raise ProbeError(
                    f"no result after {self.timeout:.0f} seconds: {'; '.join(self._waits(o, run) for o in waiting)}. "
                    "Fix: remove the reason, or raise --timeout"
                )
            if waiting:
                time.sleep(self.interval)
        return found

    def _waits(self, origin: Origin, run: str) -> str:
        reasons = [blocking_reason(pod) for pod in self._pods(origin, run)] or ["its pod was not created"]
        return f"{origin.namespace}/{_name(origin, run)}: {reasons[0] or 'its pod is running'}"

    def _pods(self, origin: Origin, run: str) -> list[Any]:
        core = kubernetes.client.CoreV1Api(self.api)
        selector = f"job-name={_name(origin, run)}"
        listed = core.list_namespaced_pod(origin.namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT)
        return list(listed.items)

    @contextmanager
    def _removed(self, origins: list[Origin], run: str, say: Say) -> Iterator[None]:
        try:
            yield
        finally:
            for origin in origins:
                self._remove(origin, run)
            deadline = time.monotonic() + _REMOVAL
            left = origins
            while left := [origin for origin in left if self._pods(origin, run)]:
                if time.monotonic() >= deadline:
                    say(f"still terminating: {', '.join(f'{o.namespace}/{_name(o, run)}' for o in left)}")
                    break
                time.sleep(min(self.interval, 1))
            else:
                say("probe pods removed")

    def _remove(self, origin: Origin, run: str) -> None:
        try:
            self._batch.delete_namespaced_job(
                _name(origin, run), origin.namespace, propagation_policy="Background", _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status != 404:
                raise


def heads(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> dict[str, str]:
    """Map each RayCluster's name to its head's address. Raises ProbeError if a RayCluster has no ready head."""
    core, namespace = kubernetes.client.CoreV1Api(api), environment.ray.namespace
    found: dict[str, str] = {}
    for cluster in environment.ray.clusters:
        selector = f"ray.io/cluster={cluster.name},ray.io/node-type=head"
        pods = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
        ready = [pod.status.pod_ip for pod in pods if is_ready_to_stay(pod)]
        if not ready:
            raise ProbeError(
                f"RayCluster {namespace}/{cluster.name} has no ready head, so its ports are closed to everyone. "
                f"Fix: see `ops status --env {environment.name}`"
            )
        found[cluster.name] = ready[0]
    return found


def enforcement(api: kubernetes.client.ApiClient) -> str:
    """Say whether the VPC CNI is configured to enforce policies. Only the connections prove that it does."""
    read = kubernetes.client.AppsV1Api(api).read_namespaced_daemon_set
    try:
        daemonset = read("aws-node", SYSTEM_NAMESPACE, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status not in (403, 404):
            raise
        why = (
            "there is no DaemonSet aws-node"
            if error.status == 404
            else "your IAM role may not read the DaemonSet aws-node"
        )
        return f"{why}: it is unknown whether the cluster's CNI enforces policies"
    if _STAND_IN in (daemonset.metadata.labels or {}):
        return REHEARSED
    containers = {container.name: container for container in daemonset.spec.template.spec.containers}
    agent = containers.get(_NODE_AGENT)
    if agent and _ENFORCES in (agent.args or []):
        return f"the VPC CNI enforces policies ({_NODE_AGENT} {_ENFORCES})"
    return 'the VPC CNI does not enforce policies: give the add-on vpc-cni {"enableNetworkPolicy": "true"}'


def verdict(outcomes: list[ProbeOutcome]) -> list[str]:
    """Return a sentence for each wrong result; an empty list if all are as expected."""
    forbidden = [each for each in outcomes if not each.connection.open and each.connection.origin != SUBMITTER]
    if forbidden and all(outcome.open for outcome in forbidden):
        return ["the NetworkPolicies are not enforced: every connection that they forbid is open"]
    return [_wrong(outcome) for outcome in outcomes if not outcome.expected]


def _wrong(outcome: ProbeOutcome) -> str:
    connection = outcome.connection
    what = f"{connection.origin} → {connection.target}:{connection.port} is {outcome.text}"
    if outcome.code == probe.WITHOUT_TOKEN:
        return f"{what}, but must want one"
    return f"{what}, but must be {'open' if connection.open else 'closed'}"


def _name(origin: Origin, run: str) -> str:
    # The VPC CNI's agent stores policies under the pod's name without its last part: each origin needs its own.
    return f"isolation-check-{origin.name}-{run}"


def _exit_codes(pod: Any) -> Mapping[str, int]:
    """Map the name of each ended container to its exit code."""
    statuses = pod.status.container_statuses or []
    return {status.name: status.state.terminated.exit_code for status in statuses if status.state.terminated}


def _outcome(connection: Connection, code: int) -> ProbeOutcome:
    if code not in _TEXTS:
        raise ProbeError(
            f"the probe {connection.container} of {connection.origin} ended with exit code {code}. "
            "Fix: rerun this command"
        )
    return ProbeOutcome(connection, code)
