"""Rules about what AWS's own services observe an environment with."""

from collections.abc import Iterator

from config.model import Environment
from config.rules.parts import same_names
from config.rules.rule import Violation, error


@error("V99")
def alerts_have_a_sender(environment: Environment) -> Iterator[Violation]:
    """Require `container_insights` beside `alerts`, and each receiver once.

    Why: only its alarms publish to the topic. SNS makes one subscription of two equal ones, and a deployment fails.
    Source: this project, docs/operate/observe-aws.md; SNS API reference, Subscribe.
    Example: observability: {alerts: {emails: [ml-platform@example.com]}}
    """
    wanted = environment.observability.alerts
    for key, receivers in (("emails", wanted.emails), ("https", wanted.https)):
        path = f"observability.alerts.{key}"
        if receivers and not environment.container_insights:
            reason = "nothing sends alerts without observability.container_insights"
            yield Violation(path, reason, "alerts beside container_insights", "add container_insights: {}")
        yield from same_names(path, receivers, key="")
