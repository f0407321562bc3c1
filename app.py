"""The CDK app: the stacks of one environment (`cdk synth -c environment=dev`)."""

import sys

import aws_cdk as cdk

from config import ConfigError, Environment, available, load
from stacks.eks import EksStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack


def build(app: cdk.App, environment: Environment) -> None:
    """Put the environment's stacks into `app`."""
    network = NetworkStack(app, "network", environment=environment)
    StorageStack(app, "storage", environment=environment, network=network)
    EksStack(app, "eks", environment=environment, network=network)


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
