"""CDK's provider framework around two handlers: one starts an operation, one checks whether it is complete."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as cr
from constructs import Construct

from config.facts import versions
from stacks.shared.checkov_skips import explain_variables
from stacks.shared.nag_suppressions import acknowledge, attribute_arn, managed_policy, wildcard

# The Python runtime of the handlers.
RUNTIME: Final = lambda_.Runtime(f"python{versions.LAMBDA_PYTHON}", lambda_.RuntimeFamily.PYTHON)
_QUERY_INTERVAL: Final = Duration.seconds(15)


def waiting_provider(
    scope: Construct, *, on_event: lambda_.Function, is_complete: lambda_.Function, total_timeout: Duration
) -> cr.Provider:
    """Return the provider; accept, on `scope`, findings about what the framework does not let callers choose."""
    provider = cr.Provider(
        scope,
        "Framework",
        on_event_handler=on_event,
        is_complete_handler=is_complete,
        query_interval=_QUERY_INTERVAL,
        total_timeout=total_timeout,
    )
    framework = [provider.node.find_child(f"framework-{part}") for part in ("isComplete", "onTimeout")]
    functions = [wildcard(f"{attribute_arn(function)}:*") for function in (on_event, is_complete, *framework)]
    explain_variables(provider)
    basic = managed_policy("service-role/AWSLambdaBasicExecutionRole")
    acknowledge(scope, "It writes the function's own logs", basic)
    acknowledge(scope, "The handlers are tested for the Python version that is pinned", "L1")
    acknowledge(scope, "The waiter's log would contain CloudFormation's pre-signed response URL", "SF1", "SF2")
    acknowledge(scope, "CDK's grant to invoke any version of the handlers", *functions)
    return provider
