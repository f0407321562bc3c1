"""The CDK app: the stacks of one environment (`cdk synth -c environment=dev`)."""

import gc
import sys

if __name__ == "__main__":
    # Modules and constructs live until the process ends: collecting garbage among them takes 10 % of a synthesis.
    gc.disable()

import aws_cdk as cdk

from config import ConfigError, EksEnvironment, Environment, SlurmEnvironment, allowed_names, load_any, naming
from stacks.eks.stack import EksStack
from stacks.hyperpod.orchestration import by_eks, by_slurm
from stacks.hyperpod.stack import HyperPodStack
from stacks.network.stack import NetworkStack
from stacks.platform.stack import PlatformStack
from stacks.ray.stack import RayStack
from stacks.shared.checkov_skips import explain_departures
from stacks.shared.company_rules import apply_company_rules
from stacks.shared.log_group import declare_function_logs
from stacks.storage.stack import StorageStack


def build(app: cdk.App, environment: Environment) -> None:
    """Add the environment's stacks to `app`, with the dependencies between them."""
    network = NetworkStack(app, environment=environment)
    storage = StorageStack(app, environment=environment, network=network)
    parts: dict[str, cdk.Stack] = {"network": network, "storage": storage}
    match environment:
        case SlurmEnvironment():
            slurm = by_slurm(environment, storage)
            parts["hyperpod"] = HyperPodStack(
                app, environment=environment, network=network, storage=storage, orchestration=slurm
            )
        case EksEnvironment():
            parts |= _eks_and_ray(app, environment, network, storage)
    for part, stack in parts.items():
        for used in naming.USES[part]:
            if used in parts:
                stack.add_stack_dependency(parts[used])
    declare_function_logs(app)
    explain_departures(app, key_of_logs=environment.company.kms_key is not None)
    apply_company_rules(app, environment)


def _eks_and_ray(
    app: cdk.App, environment: EksEnvironment, network: NetworkStack, storage: StorageStack
) -> dict[str, cdk.Stack]:
    eks = EksStack(app, environment=environment, network=network)
    hyperpod = HyperPodStack(app, environment=environment, network=network, storage=storage, orchestration=by_eks(eks))
    platform = PlatformStack(app, environment=environment, network=network, eks=eks)
    ray = RayStack(app, environment=environment, storage=storage, eks=eks)
    return {"eks": eks, "hyperpod": hyperpod, "platform": platform, "ray": ray}


if __name__ == "__main__":
    app = cdk.App(analytics_reporting=False)
    name = app.node.try_get_context("environment")
    if name is None:
        print(f"no environment is given. Allowed: {allowed_names()}. Fix: -c environment=NAME", file=sys.stderr)
        sys.exit(2)
    try:
        build(app, load_any(name))
    except ConfigError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    app.synth()
    # Skip the collection at the interpreter's exit for the same reason.
    gc.freeze()
