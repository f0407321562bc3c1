"""The kinds of runs."""

from enum import StrEnum


class JobKind(StrEnum):
    """What carries a run out: the project's job supervisor, KubeRay, or Kubeflow's training operator."""

    SUPERVISED = "supervised"
    RAYJOB = "rayjob"
    PYTORCHJOB = "pytorchjob"

    @property
    def on_ray(self) -> bool:
        """Whether the run is on Ray, whose head can be asked."""
        return self is not JobKind.PYTORCHJOB
