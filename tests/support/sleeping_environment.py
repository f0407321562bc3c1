"""An environment whose instance groups with workers sleep."""

from config import EksEnvironment
from config.model.hyperpod import Sleep


def with_sleep(environment: EksEnvironment, sleep: Sleep | None = None) -> EksEnvironment:
    """Return the environment with `sleep` on each instance group with workers."""
    with_workers = {workers.instance_group for cluster in environment.ray.clusters for workers in cluster.workers}
    groups = tuple(
        group.model_copy(update={"sleep": sleep or Sleep()}) if group.name in with_workers else group
        for group in environment.hyperpod.instance_groups
    )
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": groups})
    return environment.model_copy(update={"hyperpod": hyperpod})
