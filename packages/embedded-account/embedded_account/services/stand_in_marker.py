"""The parameter by which templates with stand-in Helm charts know the embedded account; no other account has it."""

from moto.ssm.models import ssm_backends

from config.facts.charts_lock import STAND_IN_MARKER, STAND_IN_MARKER_VALUE
from embedded_account.context import Account


def install(account: Account) -> None:
    """Put the parameter into the account."""
    ssm_backends[account.account_id][account.region].put_parameter(
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
