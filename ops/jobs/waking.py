"""Which instance groups a run wakes, how long that takes and what it costs."""

from collections.abc import Container, Iterator

from config import EksEnvironment
from config.estimates import costs
from ops.clients import CallerAccount
from ops.errors import UnreachableError, in_plain_words
from ops.hyperpod import find
from ops.readiness.expected_end import of_nodes


def groups_of(environment: EksEnvironment, cluster: str) -> set[str]:
    """Return the instance groups that may sleep and on which a RayCluster has workers."""
    on = {group.instance_group for each in environment.ray.clusters if each.name == cluster for group in each.workers}
    return on & set(environment.hyperpod.sleeping_groups)


def wakes(environment: EksEnvironment, account: CallerAccount, groups: Container[str]) -> Iterator[str]:
    """Yield a sentence for each of these groups that sleeps now; none if AWS does not say how many nodes it has."""
    try:
        with in_plain_words():
            cluster = find(account.client("sagemaker"), environment.hyperpod.cluster_name) or {}
    except UnreachableError:
        # A submitter may have no right to ask, and the run wakes the group all the same.
        return
    live = {group["InstanceGroupName"]: group["TargetCount"] for group in cluster.get("InstanceGroups", ())}
    prices = costs.prices_of_nodes(environment)
    for group in environment.hyperpod.instance_groups:
        nodes = group.count - live.get(group.name, group.count)
        if group.name not in groups or nodes <= 0:
            continue
        minutes = sum(step.typical for step in of_nodes(deep_checks=bool(group.deep_health_checks)))
        price = prices.get(group.instance_type)
        cost = "" if price is None else f", US$ {nodes * price:,.0f} an hour"
        yield f"wakes {nodes} x {group.instance_type} in {group.name}: about {minutes:.0f} minutes{cost}"
