"""Reads that lag behind changes: DescribeCluster, ListClusters and ListTags promise no consistency.

While the fault `lag_minutes` is set, each change leaves what was seen before it; readers see that for so long.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from embedded_account.hyperpod import views
from embedded_account.hyperpod.model import HyperPodCluster, Outdated
from embedded_account.hyperpod.views import View
from embedded_account.hyperpod.world import World


@contextmanager
def lagging(world: World) -> Iterator[None]:
    """Let reads see the clusters as they are now for the set time, whatever happens until the context ends."""
    if not world.faults.lag_minutes:
        yield
        return
    until = world.timeline.now() + timedelta(minutes=world.faults.lag_minutes)
    before = {
        cluster.arn: Outdated(until, views.cluster_view(cluster), dict(cluster.tag_values))
        for cluster in world.clusters.values()
    }
    yield
    for cluster in world.clusters.values():
        outdated = before.get(cluster.arn, Outdated(until))
        changed = outdated.tags != cluster.tag_values or outdated.view != views.cluster_view(cluster)
        if changed:
            cluster.outdated.append(outdated)


def is_known(world: World, cluster: HyperPodCluster) -> bool:
    """Whether readers know the cluster at all."""
    outdated = _outdated(world, cluster)
    return outdated is None or outdated.view is not None


def seen(world: World, cluster: HyperPodCluster) -> View:
    """DescribeCluster of a cluster that is known."""
    outdated = _outdated(world, cluster)
    return dict(outdated.view) if outdated and outdated.view else views.cluster_view(cluster)


def seen_tags(world: World, cluster: HyperPodCluster) -> list[View]:
    """ListTags of a cluster that is known."""
    outdated = _outdated(world, cluster)
    return views.tags_view(outdated.tags if outdated else cluster.tag_values)


def _outdated(world: World, cluster: HyperPodCluster) -> Outdated | None:
    now = world.timeline.now()
    return next((each for each in cluster.outdated if each.until > now), None)
