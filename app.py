"""The CDK app: the stacks of one environment (`cdk synth -c environment=dev`)."""

import sys

import aws_cdk as cdk

from config import ConfigError, Environment, available, load
from stacks.eks import EksStack
from stacks.network import NetworkStack
from stacks.platform import PlatformStack
from stacks.ray import RayStack
from stacks.storage import StorageStack


def build(app: cdk.App, environment: Environment) -> None:
    """Put the environment's stacks into `app`, and say which must exist before which."""
    network = NetworkStack(app, "network", environment=environment)
    storage = StorageStack(app, "storage", environment=environment, network=network)
    eks = EksStack(app, "eks", environment=environment, network=network)
    platform = PlatformStack(app, "platform", environment=environment, eks=eks)
    ray = RayStack(app, "ray", environment=environment, storage=storage, eks=eks)
    for stack, needed in ((storage, network), (eks, network), (platform, eks), (platform, storage), (ray, platform)):
        stack.add_stack_dependency(needed)


def main() -> int:
    """Synthesise the environment that the context names; return the exit status."""
    app = cdk.App(analytics_reporting=False)
    name = app.node.try_get_context("environment")
    if name is None:
        print(f"say which environment: -c environment=NAME; there are: {', '.join(available())}", file=sys.stderr)
        return 2
    try:
        build(app, load(name))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
