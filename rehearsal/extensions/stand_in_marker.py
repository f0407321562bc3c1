"""Provide the parameter that marks the embedded account: templates with stand-in Helm charts require it."""

from moto.ssm.models import ssm_backends

from config.facts.charts_lock import STAND_IN_MARKER, STAND_IN_MARKER_VALUE
from embedded_account.context import Account


def install(account: Account) -> None:
    """Create the parameter as one of the account's own, so that no inventory lists it. No AWS account has it."""
    backend = ssm_backends[account.account_id][account.region]
    backend.put_parameter(
        name=STAND_IN_MARKER,
        description="Lets CloudFormation take templates with stand-in Helm charts",
        value=STAND_IN_MARKER_VALUE,
        parameter_type="String",
        allowed_pattern=None,
        keyid=None,
        overwrite=True,
        tags=None,
        data_type="text",
        tier=None,
        policies=None,
    )
    arn = f"arn:{backend.partition}:ssm:{account.region}:{account.account_id}:parameter/{STAND_IN_MARKER.lstrip('/')}"
    account.provided.add(arn)
