"""Refusals of CloudFormation's API, by their codes."""


class RefusedCallError(Exception):
    """An API call that CloudFormation answers with an error; nothing was touched.

    `code` is AWS's error code, the message AWS's text as far as it is known.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def invalid(message: str) -> RefusedCallError:
    """A ValidationError, CloudFormation's answer to most wrong input."""
    return RefusedCallError("ValidationError", message)


def no_stack(name: str) -> RefusedCallError:
    """The answer to the name or id of a stack that does not exist."""
    return invalid(f"Stack with id {name} does not exist")


def no_change_set(name: str) -> RefusedCallError:
    """The answer to the name or id of a change set that does not exist."""
    return RefusedCallError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")
