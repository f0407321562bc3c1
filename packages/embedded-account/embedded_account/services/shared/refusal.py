"""An error that a service answers, for services whose own errors moto lacks."""

from moto.core.exceptions import ServiceException


class Refusal(ServiceException):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """A service's error: `Refusal("ResourceNotFoundException", "No cluster found")`.

    It must not be moto's own class: moto looks the code up in the service that the class's module names.
    """
