"""Read the state of a deployed environment, item by item, with a reason for each that is not ready.

CloudFormation does not wait for nodes, deep health checks, capacity or the image (docs/adr/0002): `ops wait` does.
"""

from config import Environment
from ops.clients import Clients
from ops.errors import as_viewer
from ops.readiness.item import Item, Require
from ops.readiness.nodes import hyperpod, kubernetes_nodes
from ops.readiness.one_off_jobs import directory, image
from ops.readiness.workloads import claim, ray_clusters, reaper


def observe(environment: Environment, clients: Clients, require: Require = Require.ALL) -> list[Item]:
    """Return the state of the HyperPod cluster, its groups, the image, the volume, the reaper and the RayClusters.

    `require` says what an item needs to be ready; NONE means the same as ALL here. Raises UnreachableError if an API
    refuses a request, and NoAnswerError if a retry may help.
    """
    with as_viewer():
        return [
            *hyperpod(environment, clients.sagemaker, require),
            *kubernetes_nodes(environment, clients.kubernetes, require),
            image(environment, clients),
            claim(environment, clients.kubernetes),
            directory(environment, clients.kubernetes),
            reaper(environment, clients.kubernetes, require),
            *ray_clusters(environment, clients.kubernetes, require),
        ]
