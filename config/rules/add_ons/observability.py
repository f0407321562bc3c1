"""Rules about what AWS's own services observe an environment with."""

from collections.abc import Iterator
from typing import Final

from config.model import EksEnvironment
from config.rules.parts import by_name, same_names
from config.rules.rule import Violation, error

_LEAST_VCPUS: Final = 16
"""Those of a 4xlarge."""


@error("V99")
def parts_have_what_they_need(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a part that alerts beside receivers, each receiver once, and a 4xlarge node for `hyperpod`.

    Why: only `in_cluster` and `container_insights` alert. Two equal subscriptions are one. The add-on's pods stay
    pending on smaller nodes.
    Source: SNS API reference, Subscribe; SageMaker AI developer guide, hyperpod-observability-addon-setup.
    Example: observability: {alerts: {emails: [ml-platform@example.com]}}
    """
    yield from _alerts(environment)
    if environment.hyperpod_observability:
        known = by_name(environment).values()
        if known and not any(group.count and group.type.vcpus >= _LEAST_VCPUS for group in known):
            reason = "no HyperPod node has room for the add-on's pods"
            allowed = f"a group with nodes of at least {_LEAST_VCPUS} vCPUs"
            yield Violation("observability.hyperpod", reason, allowed, "choose a larger type, or remove the key")


def _alerts(environment: EksEnvironment) -> Iterator[Violation]:
    wanted = environment.observability.alerts
    for key, receivers in (("emails", wanted.emails), ("https", wanted.https)):
        path = f"observability.alerts.{key}"
        if receivers and not (environment.alertmanager or environment.container_insights):
            reason = "nothing sends alerts"
            allowed = "alerts beside in_cluster or container_insights"
            yield Violation(path, reason, allowed, "add in_cluster: {} or container_insights: {}")
        yield from same_names(path, receivers, key="")
