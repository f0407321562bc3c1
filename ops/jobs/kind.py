"""The kinds of runs."""

from enum import StrEnum


class Kind(StrEnum):
    """What carries a run out: the project's job supervisor, or KubeRay."""

    SUPERVISED = "supervised"
    RAYJOB = "rayjob"
