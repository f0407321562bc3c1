"""The kinds of runs."""

from enum import StrEnum


class JobKind(StrEnum):
    """What carries a run out: the project's job supervisor, KubeRay, or Kubeflow's training operator."""

    SUPERVISED = "supervised"
    RAYJOB = "rayjob"
    PYTORCHJOB = "pytorchjob"
