"""The service errors of the HyperPod simulator, with SageMaker's error codes.

botocore's service model lists `ResourceInUse`, `ResourceLimitExceeded`, `ConflictException` and `ResourceNotFound`.
It does not list the codes of validation and authorisation failures, which SageMaker nevertheless returns.
"""

from moto.core.exceptions import ServiceException


class HyperPodApiError(ServiceException):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """An error that moto's serialiser sends to the client: `code` and the message."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code:
            self.code = code


class ValidationFailedError(HyperPodApiError):
    """The request violates the service model or one of HyperPod's rules."""

    code = "ValidationException"


class HyperPodAccessDeniedError(HyperPodApiError):
    """The caller lacks permission for the operation, or for an action that the service performs on its behalf."""

    code = "AccessDeniedException"


class AlreadyInUseError(HyperPodApiError):
    """A cluster with this name already exists."""

    code = "ResourceInUse"


class LimitExceededError(HyperPodApiError):
    """A service quota is too small."""

    code = "ResourceLimitExceeded"


class ConflictError(HyperPodApiError):
    """The cluster's state does not permit the change."""

    code = "ConflictException"


class NotFoundError(HyperPodApiError):
    """The cluster, node, event or operation does not exist."""

    code = "ResourceNotFound"


def not_found(cluster: str) -> NotFoundError:
    """Return SageMaker's error for an unknown cluster, given by name or ARN."""
    return NotFoundError(f"Cluster with name {cluster.rpartition('/')[2]} not found")
