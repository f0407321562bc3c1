"""EC2: a strict moto and CloudFormation's models of networks."""

from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.services import (
    ec2_creates,
    ec2_deletes,
    ec2_endpoints,
    ec2_interfaces,
    ec2_network,
    ec2_security_groups,
)
from embedded_account.services.resource_model import serve

MODELS = (ec2_endpoints, ec2_network, ec2_security_groups)
"""Modules whose import registers models."""


def install(account: Account) -> None:
    """Correct moto's EC2 and empty it: the account has no default VPC."""
    serve(account)
    ec2_creates.install()
    ec2_deletes.install()
    ec2_interfaces.install(account)
    ec2_backends[account.account_id][account.region].reset()
