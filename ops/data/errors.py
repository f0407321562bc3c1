"""The errors of `ops data`, by exit code."""


class BadPathError(Exception):
    """A path is invalid or unsafe; the message says why. Nothing was transferred."""


class TaskFailedError(Exception):
    """FSx could not carry out a data repository task; the message says which files failed."""
