"""The errors that end a copy, each with the exit code of the command."""

from typing import ClassVar


class MirrorError(Exception):
    """A copy failed or is broken; the message says why and how to fix it."""

    code: ClassVar[int] = 3


class MovedTagError(MirrorError):
    """The copy and its source have different digests; nothing is overwritten."""

    code = 1


class NoAccessError(MirrorError):
    """A registry, a program or a login cannot be used."""

    code = 2
