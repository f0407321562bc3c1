"""Check the configuration values of add-ons whose schema no document has, by the keys that examples show.

Source of HyperPod's observability add-on: awslabs/awsome-distributed-ai, terraform module observability.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.amp.models import amp_backends

from embedded_account.context import Account
from embedded_account.services.eks.errors import invalid_parameter

_HYPERPOD_KEYS: Final = {"ampWorkspace", "amgWorkspace", "metricsProvider", "logging"}
_METRICS: Final = {
    *("trainingMetrics", "inferenceMetrics", "taskGovernanceMetrics", "scalingMetrics", "customMetrics"),
    *("nodeMetrics", "acceleratedComputeMetrics", "networkMetrics"),
}
_METRIC_KEYS: Final = {"level", "scrapeInterval"}
_LEVELS: Final = ("BASIC", "ADVANCED", "DISABLED")


def check_configuration(account: Account, name: str, configuration: Mapping[str, Any]) -> None:
    """Raise EKS's error if the add-on cannot have these values; an add-on without a check takes any."""
    if check := _CHECKS.get(name):
        check(account, configuration)


def _hyperpod_observability(account: Account, configuration: Mapping[str, Any]) -> None:
    if unknown := configuration.keys() - _HYPERPOD_KEYS:
        raise invalid_parameter(f"ConfigurationValue provided has unknown keys: {', '.join(sorted(unknown))}")
    for category, settings in configuration.get("metricsProvider", {}).items():
        if category not in _METRICS:
            raise invalid_parameter(f"metricsProvider.{category} is unknown. Allowed: {', '.join(sorted(_METRICS))}")
        if unknown := settings.keys() - _METRIC_KEYS:
            raise invalid_parameter(f"metricsProvider.{category} has unknown keys: {', '.join(sorted(unknown))}")
        if settings.get("level") not in _LEVELS:
            raise invalid_parameter(f"metricsProvider.{category}.level is invalid. Allowed: {', '.join(_LEVELS)}")
    given = configuration.get("ampWorkspace", {})
    workspaces = amp_backends[account.account_id][account.region].workspaces.values()
    # EKS would accept any, and the collector would write to nobody.
    found = next((each for each in workspaces if each.arn == given.get("arn")), None)
    if found is None:
        raise invalid_parameter(f"ampWorkspace.arn: the workspace {given.get('arn')} does not exist")
    if not str(given.get("prometheusEndpoint", "")).endswith(f"/workspaces/{found.workspace_id}"):
        raise invalid_parameter("ampWorkspace.prometheusEndpoint is not that of ampWorkspace.arn")


_CHECKS: Final[Mapping[str, Callable[[Account, Mapping[str, Any]], None]]] = {
    "amazon-sagemaker-hyperpod-observability": _hyperpod_observability,
}
