"""The error response of services whose errors moto does not define."""

from moto.core.exceptions import ServiceException


class Refusal(ServiceException):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """The error of a service: `Refusal("ResourceNotFoundException", "No cluster found")`.

    A class of moto itself does not work: moto looks up the error code in the service that the class's module names.
    """
