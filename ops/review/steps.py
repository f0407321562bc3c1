"""Say who does what, and when: the steps of a change's action."""

from typing import Final

AUTHOR: Final = "Author: "
REVIEWER: Final = "Reviewer: "
BEFORE: Final = "Operator, before the deployment: "
AFTER: Final = "Operator, after the deployment: "


def author(what: str) -> str:
    """Return a step of the change's author, in this pull request; `what` is a clause in the imperative."""
    return f"{AUTHOR}{what}."


def operator_before(what: str) -> str:
    """Return a step before the deployment."""
    return f"{BEFORE}{what}."


def operator_after(what: str) -> str:
    """Return a step after the deployment."""
    return f"{AFTER}{what}."


def steps(*each: str) -> str:
    """Return the action of several steps; empty ones are left out."""
    return "\n".join(filter(None, each))
