"""The errors of `ops data`, by exit code."""


class BadPathError(Exception):
    """A path is invalid or unsafe; the message says why. Nothing was transferred."""


class RefusedError(Exception):
    """The request is refused, or not done in time; the message says why."""


class TaskFailedError(Exception):
    """FSx could not carry out a data repository task; the message says which files failed."""
