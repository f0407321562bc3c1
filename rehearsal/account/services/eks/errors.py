"""EKS's own refusals, as the API and CloudFormation show them."""

from moto.core.exceptions import ServiceException


def invalid_parameter(message: str) -> ServiceException:
    """A parameter that EKS does not accept."""
    return ServiceException("InvalidParameterException", message)


def invalid_request(message: str) -> ServiceException:
    """A request that does not fit the state of the resource."""
    return ServiceException("InvalidRequestException", message)


def in_use(message: str) -> ServiceException:
    """The name is taken, or something still uses the resource."""
    return ServiceException("ResourceInUseException", message)


def not_found(message: str) -> ServiceException:
    """There is no such resource."""
    return ServiceException("ResourceNotFoundException", message)
