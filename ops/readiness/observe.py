"""Read the state of a deployed environment, item by item, with a reason for each that is not ready.

CloudFormation does not wait for nodes, deep health checks, capacity or the image (docs/adr/0002): `ops wait` does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from config import EksEnvironment, Environment, SlurmEnvironment
from ops.clients import CallerAccount, Clients, connect
from ops.errors import as_viewer
from ops.hyperpod import find
from ops.readiness.asleep import sleeping_groups
from ops.readiness.item import ReadinessItem, ReadinessState, Require
from ops.readiness.nodes import goals, hyperpod, kubernetes_nodes
from ops.readiness.one_off_jobs import directory, image
from ops.readiness.workloads import claim, controllers, ray_clusters


@contextmanager
def observing(environment: Environment, require: Require) -> Iterator[Callable[[], list[ReadinessItem]]]:
    """Yield a function that returns the items of an environment, with connections to what orchestrates its cluster.

    Raises UnreachableError.
    """
    match environment:
        case SlurmEnvironment():
            yield partial(observe_slurm, environment, CallerAccount(environment), require)
        case EksEnvironment():
            with connect(environment) as clients:
                yield partial(observe, environment, clients, require)


def observe_slurm(
    environment: SlurmEnvironment, account: CallerAccount, require: Require = Require.ALL
) -> list[ReadinessItem]:
    """Return the state of the HyperPod cluster and its groups. Slurm itself answers on the nodes only."""
    with as_viewer():
        sagemaker = account.client("sagemaker")
        return list(hyperpod(environment, find(sagemaker, environment.hyperpod.cluster_name), sagemaker, require))


def observe(environment: EksEnvironment, clients: Clients, require: Require = Require.ALL) -> list[ReadinessItem]:
    """Return the state of the HyperPod cluster, its groups, the image, the volume, the controllers and the RayClusters.

    `require` says what an item needs to be ready; NONE means the same as ALL here. Raises UnreachableError if an API
    refuses a request, and NoAnswerError if a retry may help.
    """
    with as_viewer():
        rays = list(ray_clusters(environment, clients.kubernetes, require))
        paused = any(item.state is ReadinessState.PAUSED for item in rays)
        cluster = find(clients.sagemaker, environment.hyperpod.cluster_name)
        sleeping = sleeping_groups(environment, clients.kubernetes)
        return [
            *hyperpod(environment, cluster, clients.sagemaker, require, paused=paused, sleeping=sleeping),
            *kubernetes_nodes(environment, clients.kubernetes, require, goals(environment, cluster)),
            image(environment, clients),
            claim(environment, clients.kubernetes),
            directory(environment, clients.kubernetes),
            *controllers(environment, clients.kubernetes, require),
            *rays,
        ]
