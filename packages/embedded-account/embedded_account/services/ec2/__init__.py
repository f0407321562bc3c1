"""EC2: stricter checks for moto's backend, and CloudFormation's models of networks."""

from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.services.ec2 import creates as ec2_creates
from embedded_account.services.ec2 import deletes as ec2_deletes
from embedded_account.services.ec2 import endpoints as ec2_endpoints
from embedded_account.services.ec2 import interfaces as ec2_interfaces
from embedded_account.services.ec2 import network as ec2_network
from embedded_account.services.ec2 import prefix_lists as ec2_prefix_lists
from embedded_account.services.ec2 import security_groups as ec2_security_groups
from embedded_account.services.shared.resource_model import serve

MODELS = (ec2_endpoints, ec2_network, ec2_prefix_lists, ec2_security_groups)
"""The modules that register models when they are imported."""


def install(account: Account) -> None:
    """Correct moto's EC2 and empty it: the account has no default VPC."""
    serve(account)
    ec2_creates.install()
    ec2_deletes.install()
    ec2_interfaces.install(account)
    ec2_backends[account.account_id][account.region].reset()
