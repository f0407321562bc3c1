"""Name the roles of people."""

from enum import StrEnum


class PersonRole(StrEnum):
    """A kind of person."""

    DEPLOYER = "deployer"
    OPERATOR = "operator"
    SCIENTIST = "scientist"
    VIEWER = "viewer"
    ADMIN = "admin"
