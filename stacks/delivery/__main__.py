"""The CDK app of the workflows' roles: `cdk --app "python3 -m stacks.delivery" -c environment=dev -c repository=…`."""

import re
import sys

import aws_cdk as cdk

from config import ConfigError, allowed_names, load
from stacks.delivery.stack import DeliveryStack
from stacks.shared.company_rules import apply_company_rules

_REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")


def main() -> None:
    """Write the cloud assembly; exit with 2 if the context is incomplete."""
    app = cdk.App(analytics_reporting=False)
    name, repository = (app.node.try_get_context(key) for key in ("environment", "repository"))
    if name is None:
        sys.exit(_wrong(f"no environment is given. Allowed: {allowed_names()}. Fix: -c environment=NAME"))
    # A wildcard here would let other repositories deploy.
    if not _REPOSITORY.fullmatch(str(repository)):
        sys.exit(_wrong(f"repository {repository} is invalid. Allowed: OWNER/NAME. Fix: -c repository=OWNER/NAME"))
    try:
        environment = load(name)
    except ConfigError as error:
        sys.exit(_wrong(str(error)))
    creates = app.node.try_get_context("provider") == "create"
    DeliveryStack(app, environment=environment, repository=repository, creates_provider=creates)
    apply_company_rules(app, environment)
    app.synth()


def _wrong(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
