"""Prometheus' alerts: what is measured, when it is wrong and for how long, and where the runbook is.

Waiting is not a fault: the alerts about a run's work hold only while the run trains.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

RUNBOOK: Final = "docs/operate/observe.md"


@dataclass(frozen=True)
class Alert:
    """An alert that fires if `value` breaks `limit` for `seconds`; with `on_run` only for runs that train.

    The value always has series while what it is about exists, so that a test can ask for it without a fault.
    """

    name: str
    value: str
    limit: str
    seconds: int
    severity: Literal["critical", "warning"]
    summary: str
    on_run: bool = False

    @property
    def expression(self) -> str:
        """The PromQL expression of the rule."""
        broken = f"({self.value}) {self.limit}"
        return f"{broken} and on (run) (ray_run_trains == 1)" if self.on_run else broken

    @property
    def anchor(self) -> str:
        """The heading of the runbook in the page."""
        return self.name.lower()

    def rule(self) -> dict[str, Any]:
        """Return the alert as a rule of Prometheus."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.seconds}s",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook": f"{RUNBOOK}#{self.anchor}"},
        }


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE

ALERTS: Final = (
    Alert(
        "JobStalled",
        "changes(ray_run_step[10m])",
        "== 0",
        20 * _MINUTE,
        "critical",
        "Run {{ $labels.run }} trains, but its step has not changed for half an hour.",
        on_run=True,
    ),
    Alert(
        "CheckpointTooOld",
        "time() - ray_run_checkpoint_timestamp_seconds",
        f"> {2 * _HOUR}",
        5 * _MINUTE,
        "warning",
        "The last checkpoint of run {{ $labels.run }} is {{ $value | humanizeDuration }} old.",
        on_run=True,
    ),
    Alert(
        "GoodputLow",
        "ray_run_goodput_ratio",
        "< 0.5",
        30 * _MINUTE,
        "warning",
        "Run {{ $labels.run }} uses only {{ $value | humanizePercentage }} of its paid time.",
        on_run=True,
    ),
    Alert(
        "SupervisorDown",
        "time() - ray_run_lease_renewal_timestamp_seconds",
        f"> {5 * _MINUTE}",
        5 * _MINUTE,
        "critical",
        "Nobody renews the Lease of run {{ $labels.run }}: its supervisor is gone or cut off.",
    ),
    Alert(
        "ReaperDown",
        'sum(up{job="reaper"}) or vector(0)',
        "< 1",
        5 * _MINUTE,
        "critical",
        "No reaper answers: Ray pods on a lost node would stay, and their job would wait for ever.",
    ),
    Alert(
        "ReaperBlind",
        "time() - max(ray_reaper_last_look_timestamp_seconds)",
        f"> {5 * _MINUTE}",
        5 * _MINUTE,
        "critical",
        "No reaper has checked Ray's pods for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "ExporterDown",
        'sum(up{job="exporter"}) or vector(0)',
        "< 1",
        5 * _MINUTE,
        "critical",
        "The exporter does not answer: alerts about runs and nodes are blind.",
    ),
    Alert(
        "NodeNotReady",
        "hyperpod_node_ready",
        "== 0",
        15 * _MINUTE,
        "critical",
        "Node {{ $labels.node }} of {{ $labels.instance_group }} is not Ready, and is not replaced.",
    ),
    Alert(
        "NodeUnhealthy",
        "hyperpod_node_schedulable",
        "== 0",
        30 * _MINUTE,
        "warning",
        "HyperPod calls node {{ $labels.node }} {{ $labels.status }}, and has not replaced it.",
    ),
    Alert(
        "DeepHealthCheckFailed",
        "count by (node, instance_group, status) (hyperpod_node_deep_health_check)",
        '> 0 and on (node) (hyperpod_node_deep_health_check{status="Failed"})',
        _MINUTE,
        "warning",
        "Node {{ $labels.node }} of {{ $labels.instance_group }} failed its deep health check.",
    ),
    Alert(
        "ImageBuildFailed",
        "ray_image_build_failed",
        "== 1",
        _MINUTE,
        "critical",
        "Job {{ $labels.build }} failed: new Ray pods wait for their image.",
    ),
)


def rule_groups() -> tuple[dict[str, Any], ...]:
    """Return the groups of Prometheus' rules."""
    return ({"name": "ray-on-hyperpod", "rules": [alert.rule() for alert in ALERTS]},)
