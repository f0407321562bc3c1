"""The models of what makes an environment's metrics visible."""

from pydantic import Field, PositiveInt

from config.model.base import Model


class InCluster(Model):
    """Prometheus and Grafana on the system nodes, in the namespace `prometheus-system`."""

    storage_gib: PositiveInt = Field(
        default=20,
        description="Disk for metrics in GiB, on a system node. The oldest metrics go first; a moved pod starts empty.",
    )


class Observability(Model):
    """Who collects and shows metrics. Each part is off by default."""

    in_cluster: InCluster | None = Field(
        default=None, description="Install Prometheus and Grafana with dashboards and alerts; `{}` takes the defaults."
    )
