"""Errors of the embedded account's models, and CloudFormation's wording of any error."""


class ResourceError(Exception):
    """A resource could not be created, changed or deleted; the message becomes CloudFormation's reason.

    `code` is the error code of the service that refused, if there is one.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException) -> str | None:
    """Return the AWS error code that `error` carries, or None."""
    for name in ("error_type", "code"):  # moto's older errors keep the HTTP status in `code`
        code = getattr(error, name, None)
        if isinstance(code, str):
            return code
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code", "")) or None
    return None


def reason_of(error: BaseException) -> str:
    """Return the reason that CloudFormation would show for `error`.

    moto's exceptions carry the service's own text in `message`, boto3's in their response. Any other error is a fault
    of the rehearsal, and the reason says so, so that nobody mistakes it for AWS's refusal.
    """
    if isinstance(error, ResourceError):
        return f"{error} ({error.code})" if error.code else str(error)
    code = code_of(error)
    response = getattr(error, "response", None)
    message = response.get("Error", {}).get("Message") if isinstance(response, dict) else None
    message = getattr(error, "message", None) or message or str(error)
    if code:
        return f"{message} (Service error: {code})"
    return f"Internal failure of the embedded account: {type(error).__name__}: {error}"
