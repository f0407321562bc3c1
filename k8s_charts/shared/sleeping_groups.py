"""The instance groups that sleep while nothing uses them."""

from config.model import EksEnvironment, InstanceGroup


def sleeping_groups(environment: EksEnvironment) -> tuple[InstanceGroup, ...]:
    """Return the environment's instance groups that sleep."""
    return tuple(group for group in environment.hyperpod.instance_groups if group.sleep is not None)
