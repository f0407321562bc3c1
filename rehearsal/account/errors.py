"""Errors that models of the embedded account raise, and how any error reads in CloudFormation's words."""


class ResourceFailure(Exception):
    """A resource could not be created, changed or deleted; the message becomes its CloudFormation reason."""


def reason_of(error: BaseException) -> str:
    """Return what CloudFormation would show for `error`.

    moto's exceptions carry the service's own text in `message`; boto3's in their string. Anything else is a
    fault of the rehearsal and says so, so that it is not taken for AWS's refusal.
    """
    if isinstance(error, ResourceFailure):
        return str(error)
    message = getattr(error, "message", None)
    if isinstance(message, str) and message:
        code = getattr(error, "error_type", None) or getattr(error, "code", None)
        return f"{message} (Service error: {code})" if isinstance(code, str) else message
    if type(error).__module__.startswith("botocore"):
        return str(error)
    return f"Internal failure of the embedded account: {type(error).__name__}: {error}"
