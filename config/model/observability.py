"""The models of what makes an environment's metrics visible."""

from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from config.model.base import Email, Model, Shape

HttpsUrl = Annotated[
    str,
    Shape(
        pattern=r"^https://[^\s/@]+(/[^\s]*)?$",
        what="an address that begins with https://, without a user's name",
        like="https://alerts.example.com/hyperpod",
        fix="copy the address of the service that takes the alerts",
        mistakes=((r"http://.*", "it is not encrypted"),),
    ),
]
# CloudWatch Logs API reference, PutRetentionPolicy.
RetentionDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922]


class InCluster(Model):
    """Prometheus and Grafana on the system nodes, in the namespace `prometheus-system`."""

    storage_gib: PositiveInt = Field(
        default=20,
        description="Disk for metrics in GiB, on a system node. The oldest metrics go first; a moved pod starts empty.",
    )


class ContainerInsights(Model):
    """The add-on amazon-cloudwatch-observability with its role, log groups, a dashboard, and alarms to a topic."""

    log_retention_days: RetentionDays = Field(
        default=30, description="Days for which CloudWatch keeps the logs of pods and nodes."
    )


class Grafana(Model):
    """A workspace of Amazon Managed Grafana that people of IAM Identity Center sign in to."""

    MOST_NETWORKS: ClassVar[int] = 20
    """Number of networks for which the workspace has room."""

    # Amazon Managed Grafana user guide, network access: public IPv4 addresses only, and at least one list of them.
    public_access_cidrs: tuple[IPv4Network, ...] = Field(
        description="Public addresses that may reach the workspace: those of your office, or of your VPN's exit.",
        min_length=1,
        max_length=MOST_NETWORKS,
    )


class HyperPodObservability(Model):
    """The add-on amazon-sagemaker-hyperpod-observability, which writes to a workspace of Amazon Managed Prometheus."""

    grafana: Grafana | None = Field(
        default=None,
        description="Make a workspace of Amazon Managed Grafana; IAM Identity Center must be enabled.",
    )


class Alerts(Model):
    """Who receives the alerts of `in_cluster` and the alarms of `container_insights`."""

    emails: tuple[Email, ...] = Field(
        default=(), description="E-mail addresses; each owner must confirm the subscription once."
    )
    https: tuple[HttpsUrl, ...] = Field(
        default=(), description="Addresses to which SNS posts each alarm; each must confirm its subscription once."
    )

    @property
    def has_receivers(self) -> bool:
        """Whether anybody is called."""
        return bool(self.emails or self.https)


class Observability(Model):
    """Who collects and shows metrics. Each part is off by default."""

    in_cluster: InCluster | None = Field(
        default=None, description="Install Prometheus and Grafana with dashboards and alerts; `{}` takes the defaults."
    )
    container_insights: ContainerInsights | None = Field(
        default=None,
        description="Send metrics and logs to CloudWatch, with a dashboard and alarms; `{}` takes the defaults.",
    )
    hyperpod: HyperPodObservability | None = Field(
        default=None,
        description="Install HyperPod's observability add-on with a Prometheus workspace; `{}` enables it.",
    )
    alerts: Alerts = Field(default=Alerts(), description="Who receives alerts and alarms.")
