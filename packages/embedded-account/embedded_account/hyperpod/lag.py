"""Delay what read calls show: AWS promises no consistency for DescribeCluster, ListClusters and ListTags.

While the fault `lag_minutes` is set, each change keeps a copy of the previous state. Read calls return that copy for
the set number of minutes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from embedded_account.hyperpod import views
from embedded_account.hyperpod.model import DelayedView, SimulatedCluster
from embedded_account.hyperpod.views import View
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.tags import tag_list


@contextmanager
def lagging(world: SimulatorState) -> Iterator[None]:
    """Keep the clusters' present state for readers if code in the context changes the clusters.

    Readers see that state for the `lag_minutes` of the fault.
    """
    if not world.faults.lag_minutes:
        yield
        return
    until = world.timeline.now() + timedelta(minutes=world.faults.lag_minutes)
    before = {
        cluster.arn: DelayedView(until, views.cluster_view(cluster), dict(cluster.tag_values))
        for cluster in world.clusters.values()
    }
    yield
    for cluster in world.clusters.values():
        outdated = before.get(cluster.arn, DelayedView(until))
        changed = outdated.tags != cluster.tag_values or outdated.view != views.cluster_view(cluster)
        if changed:
            cluster.outdated.append(outdated)


def is_known(world: SimulatorState, cluster: SimulatedCluster) -> bool:
    """Return whether read calls already show the cluster."""
    outdated = _outdated(world, cluster)
    return outdated is None or outdated.view is not None


def seen(world: SimulatorState, cluster: SimulatedCluster) -> View:
    """Return the DescribeCluster response of a cluster that readers know (`is_known`)."""
    outdated = _outdated(world, cluster)
    return dict(outdated.view) if outdated and outdated.view else views.cluster_view(cluster)


def seen_tags(world: SimulatorState, cluster: SimulatedCluster) -> list[View]:
    """Return the tags that ListTags shows of a cluster that readers know (`is_known`)."""
    outdated = _outdated(world, cluster)
    return tag_list(outdated.tags if outdated else cluster.tag_values)


def _outdated(world: SimulatorState, cluster: SimulatedCluster) -> DelayedView | None:
    now = world.timeline.now()
    return next((each for each in cluster.outdated if each.until > now), None)
