"""Prometheus' alerts: what is measured, when it is wrong and for how long, and where the runbook is.

Waiting is not a fault: the alerts about a run's work hold only while the run trains.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from config.estimates import creation

RUNBOOK: Final = "docs/operate/observe.md"
GPU_RUNBOOK: Final = "docs/operate/gpus.md"
SLEEP_RUNBOOK: Final = "docs/operate/sleep.md"

# Those after which AWS's node monitoring agent calls a node of EKS broken (aws/eks-node-monitoring-agent,
# `WellKnownXidCodes`). Others, such as 13, 31, 43 and 45, are usually an application's (NVIDIA, "XID errors").
_XIDS: Final = (
    *(46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120),
    *(136, 140, 142, 143, 151, 155, 156, 158),
)
# The exporter's zero of a GPU without errors has no number.
BROKEN_GPU: Final = f'DCGM_EXP_XID_ERRORS_COUNT{{xid=~"|{"|".join(map(str, _XIDS))}"}}'
"""The series of XID errors that mean a fault of the node."""


@dataclass(frozen=True)
class Alert:
    """An alert that fires if `value` breaks `limit` for `seconds`; with `on_run` only for runs that train.

    With `gpus` only clusters with nodes with GPUs have it, with `efa` those with EFA, and with `sleep` those in which a
    group sleeps.

    The value always has series while what it is about exists, so that a test can ask for it without a fault.
    """

    name: str
    value: str
    limit: str
    seconds: int
    severity: Literal["critical", "warning"]
    summary: str
    on_run: bool = False
    gpus: bool = False
    efa: bool = False
    sleep: bool = False

    @property
    def expression(self) -> str:
        """The PromQL expression of the rule."""
        broken = f"({self.value}) {self.limit}"
        return f"{broken} and on (run) (ray_run_trains == 1)" if self.on_run else broken

    @property
    def anchor(self) -> str:
        """The heading of the runbook in the page."""
        return self.name.lower()

    @property
    def page(self) -> str:
        """The page with the runbook."""
        if self.sleep:
            return SLEEP_RUNBOOK
        return GPU_RUNBOOK if self.gpus or self.efa else RUNBOOK

    def rule(self) -> dict[str, Any]:
        """Return the alert as a rule of Prometheus."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.seconds}s",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook": f"{self.page}#{self.anchor}"},
        }


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_WANTED: Final = "max by (group) (ray_sleeper_wanted_nodes)"
# A node that is there and not Ready has an alert of its own.
_NODES_OF_GROUP: Final = 'label_replace(hyperpod_node_ready, "group", "$1", "instance_group", "(.+)")'

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
        "XidError",
        # An hour, so that somebody who looks later sees it.
        f"max by (node, instance_group, gpu, xid) (max_over_time({BROKEN_GPU}[1h]))",
        "> 0",
        _MINUTE,
        "critical",
        "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported XID {{ $labels.xid }}.",
        gpus=True,
    ),
    Alert(
        "EccUncorrectable",
        "max by (node, instance_group, gpu) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL)",
        "> 0",
        _MINUTE,
        "critical",
        "The memory of GPU {{ $labels.gpu }} of node {{ $labels.node }} has had {{ $value }} uncorrectable errors.",
        gpus=True,
    ),
    Alert(
        "RowRemapFailed",
        "max by (node, instance_group, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE)",
        "> 0",
        _MINUTE,
        "critical",
        "GPU {{ $labels.gpu }} of node {{ $labels.node }} could not replace a broken row of its memory.",
        gpus=True,
    ),
    Alert(
        "GpuExporterDown",
        'min by (node, instance_group) (up{job="dcgm"})',
        "< 1",
        15 * _MINUTE,
        "warning",
        "The GPUs' exporter on node {{ $labels.node }} does not answer: alerts about its GPUs are blind.",
        gpus=True,
    ),
    Alert(
        "EfaDrops",
        "sum by (node, instance_group, device) (rate(node_amazonefa_rx_drops[5m]))",
        # As CloudWatch's alarm of this name has it (config/container_insights.py).
        ">= 1",
        15 * _MINUTE,
        "warning",
        "EFA device {{ $labels.device }} of node {{ $labels.node }} drops {{ $value | humanize }} packets a second.",
        efa=True,
    ),
    Alert(
        "EfaExporterDown",
        'min by (node, instance_group) (up{job="efa"})',
        "< 1 or max by (node, instance_group) (efa_unreadable) > 0 or max by (node, instance_group) (efa_devices) < 1",
        15 * _MINUTE,
        "warning",
        "Nothing reads EFA on node {{ $labels.node }}: its exporter, its devices or some of their counters are gone.",
        efa=True,
    ),
    Alert(
        "ImageBuildFailed",
        "ray_image_build_failed",
        "== 1",
        _MINUTE,
        "critical",
        "Job {{ $labels.build }} failed: new Ray pods wait for their image.",
    ),
    Alert(
        "GroupDoesNotWake",
        f"{_WANTED} - (count by (group) ({_NODES_OF_GROUP}) or {_WANTED} * 0)",
        # Without the exporter nobody knows which nodes there are.
        '> 0 and on () (max(up{job="exporter"}) == 1)',
        int(creation.later(ray=False)[creation.NODES].high * _MINUTE),
        "critical",
        "Something wants group {{ $labels.group }}, and {{ $value }} of its nodes are missing: it does not wake.",
        sleep=True,
    ),
    Alert(
        "SleeperBlind",
        "time() - max(ray_sleeper_last_look_timestamp_seconds or vector(0))",
        f"> {5 * _MINUTE}",
        5 * _MINUTE,
        "critical",
        "No sleeper has checked the groups for {{ $value | humanizeDuration }}: none sleeps, and none wakes.",
        sleep=True,
    ),
)


def rule_groups(*, gpus: bool, efa: bool, sleep: bool) -> tuple[dict[str, Any], ...]:
    """Return the groups of Prometheus' rules: with `gpus`, `efa` and `sleep` those about each, too."""
    rules = [
        alert.rule()
        for alert in ALERTS
        if (gpus or not alert.gpus) and (efa or not alert.efa) and (sleep or not alert.sleep)
    ]
    return ({"name": "ray-on-hyperpod", "rules": rules},)
