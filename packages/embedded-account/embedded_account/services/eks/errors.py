"""EKS's own refusals, as the API and CloudFormation show them."""

from embedded_account.services.shared.refusal import Refusal


def invalid_parameter(message: str) -> Refusal:
    """A parameter that EKS does not accept."""
    return Refusal("InvalidParameterException", message)


def invalid_request(message: str) -> Refusal:
    """A request that does not fit the state of the resource."""
    return Refusal("InvalidRequestException", message)


def in_use(message: str) -> Refusal:
    """The name is taken, or something still uses the resource."""
    return Refusal("ResourceInUseException", message)


def not_found(message: str) -> Refusal:
    """There is no such resource."""
    return Refusal("ResourceNotFoundException", message)
