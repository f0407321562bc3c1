"""The errors of CloudFormation's API, by their codes."""


class RefusedCallError(Exception):
    """An API call that CloudFormation refuses with an error, before it changes anything.

    `code` is AWS's error code. The message is AWS's text as far as it is known.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def invalid(message: str) -> RefusedCallError:
    """Return a ValidationError, CloudFormation's answer to most invalid input."""
    return RefusedCallError("ValidationError", message)


def no_stack(name: str) -> RefusedCallError:
    """Return the error for a name or id of no existing stack."""
    return invalid(f"Stack with id {name} does not exist")


def no_change_set(name: str) -> RefusedCallError:
    """Return the error for a name or id of no existing change set."""
    return RefusedCallError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")
