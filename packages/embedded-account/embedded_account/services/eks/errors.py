"""EKS's errors, as the API and CloudFormation show them."""

from embedded_account.services.shared.refusal import Refusal


def invalid_parameter(message: str) -> Refusal:
    """Return the error for a parameter that EKS does not accept."""
    return Refusal("InvalidParameterException", message)


def invalid_request(message: str) -> Refusal:
    """Return the error for a request that the state of the resource does not allow."""
    return Refusal("InvalidRequestException", message)


def in_use(message: str) -> Refusal:
    """Return the error for a name that is already used, or for a resource that is still in use."""
    return Refusal("ResourceInUseException", message)


def not_found(message: str) -> Refusal:
    """Return the error for a resource that does not exist."""
    return Refusal("ResourceNotFoundException", message)
