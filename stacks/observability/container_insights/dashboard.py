"""The CloudWatch dashboard of an environment: its alarms, HyperPod's nodes, EFA and the file system.

Metrics and dimensions are those of tests/synth/stacks/cloudwatch_metrics.yaml, which names the source of each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from config import Environment, naming
from config.container_insights import CONTAINER_INSIGHTS, FSX, RUNBOOK, has_efa, owns_file_system

_WIDTH: Final = 12
_NOTE: Final = (
    "Made from code: a deployment overwrites changes. The repository's page"
    f" {RUNBOOK} says what to do when an alarm fires."
)


@dataclass(frozen=True)
class Chart:
    """A chart of metrics with one dimension; `metrics` maps their names to labels.

    `shown` is a formula of a metric `m`; the `statistic` alone grows with the period that the console chooses.
    """

    title: str
    unit: str
    metrics: Mapping[str, str]
    statistic: Literal["Average", "Maximum", "Sum"]
    of: Literal["ClusterName", "FileSystemId"] = "ClusterName"
    shown: str = "m"
    applies: Callable[[Environment], bool] = lambda _: True

    @property
    def namespace(self) -> str:
        """CloudWatch's namespace of the metrics."""
        return FSX if self.of == "FileSystemId" else CONTAINER_INSIGHTS


CHARTS: Final = (
    Chart(
        "Nodes of the EKS cluster",
        "nodes",
        {"cluster_node_count": "all", "cluster_failed_node_count": "failed"},
        "Maximum",
    ),
    # Each HyperPod node sends 0 or 1 for each state, so the average is a share of the nodes.
    Chart(
        "HyperPod nodes by state",
        "share of nodes",
        {
            "hyperpod_node_health_status_schedulable": "schedulable",
            "hyperpod_node_health_status_unschedulable": "in deep health checks",
            "hyperpod_node_health_status_unschedulable_pending_reboot": "to be rebooted",
            "hyperpod_node_health_status_unschedulable_pending_replacement": "to be replaced",
        },
        "Average",
    ),
    Chart(
        "EFA: busiest interface",
        "bytes per second",
        {"node_efa_rx_bytes": "receives", "node_efa_tx_bytes": "sends"},
        "Maximum",
        applies=has_efa,
    ),
    Chart(
        "EFA: most dropped packets of an interface",
        "packets per second",
        {"node_efa_rx_dropped": "dropped"},
        "Maximum",
        applies=has_efa,
    ),
    # FSx sends a value for each disk and minute.
    Chart(
        "File system: free",
        "bytes",
        {"FreeDataStorageCapacity": "free"},
        "Sum",
        "FileSystemId",
        "m * 60 / PERIOD(m)",
        owns_file_system,
    ),
    Chart(
        "File system: throughput",
        "bytes per second",
        {"DataReadBytes": "read", "DataWriteBytes": "written"},
        "Sum",
        "FileSystemId",
        "m / PERIOD(m)",
        owns_file_system,
    ),
    Chart(
        "File system: operations",
        "operations per second",
        {"DataReadOperations": "read", "DataWriteOperations": "write", "MetadataOperations": "metadata"},
        "Sum",
        "FileSystemId",
        "m / PERIOD(m)",
        owns_file_system,
    ),
)


class AwsDashboard(Construct):
    """The dashboard; `dimensions` maps a dimension's name to its value, and `alarms` are those that it shows."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        alarms: Iterable[cloudwatch.CfnAlarm],
        dimensions: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        shown = [cloudwatch.Alarm.from_alarm_arn(self, f"{alarm.node.id}Shown", alarm.attr_arn) for alarm in alarms]
        charts = [
            _widget(chart, environment.region, dimensions[chart.of]) for chart in CHARTS if chart.applies(environment)
        ]
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=naming.dashboard(environment),
            widgets=[
                [cloudwatch.TextWidget(markdown=_NOTE, width=2 * _WIDTH, height=1)],
                [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=shown, width=2 * _WIDTH, height=2)],
                *(charts[first : first + 2] for first in range(0, len(charts), 2)),
            ],
        )


def _widget(chart: Chart, region: str, of: str) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=chart.title,
        region=region,
        width=_WIDTH,
        left=list(_lines(chart, of)),
        left_y_axis=cloudwatch.YAxisProps(label=chart.unit, min=0, show_units=False),
    )


def _lines(chart: Chart, of: str) -> Iterator[cloudwatch.IMetric]:
    for number, (name, label) in enumerate(chart.metrics.items()):
        metric = cloudwatch.Metric(
            namespace=chart.namespace,
            metric_name=name,
            dimensions_map={chart.of: of},
            statistic=chart.statistic,
            label=label,
            period=Duration.minutes(5),
        )
        if chart.shown == "m":
            yield metric
        else:
            own = f"m{number}"
            yield cloudwatch.MathExpression(
                expression=chart.shown.replace("m", own), using_metrics={own: metric}, label=label
            )
