"""The service errors of the HyperPod simulator, by SageMaker's error codes.

Codes: botocore's service model (`ResourceInUse`, `ResourceLimitExceeded`, `ConflictException`,
`ResourceNotFound`); validation and authorisation failures arrive as codes that the model does not list.
"""

from moto.core.exceptions import ServiceException


class ApiError(ServiceException):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """An error that moto's serialiser sends to the client as `code` and the message."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code:
            self.code = code


class ValidationFailedError(ApiError):
    """The request breaks the service model or one of HyperPod's rules."""

    code = "ValidationException"


class AccessDeniedError(ApiError):
    """The caller lacks the action itself or one that the service carries out in its name."""

    code = "AccessDeniedException"


class AlreadyInUseError(ApiError):
    """A cluster of this name exists."""

    code = "ResourceInUse"


class LimitExceededError(ApiError):
    """A service quota is too small."""

    code = "ResourceLimitExceeded"


class ConflictError(ApiError):
    """The cluster is in a state in which it takes no change."""

    code = "ConflictException"


class NotFoundError(ApiError):
    """No such cluster, event or operation."""

    code = "ResourceNotFound"


def not_found(cluster: str) -> NotFoundError:
    """SageMaker's words for a cluster, by name or ARN, that it does not know."""
    return NotFoundError(f"Cluster with name {cluster.rpartition('/')[2]} not found")
