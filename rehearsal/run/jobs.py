"""Let real Ray run in the pods of a rehearsal, on a machine without GPUs."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from config import EksEnvironment
from config.facts.versions import SETS, SetName
from embedded_account.kubernetes.pods.programs import RealRay
from k8s_charts.shared.names import RAY_DIRECTORY
from rehearsal.paths import RAY_ENVIRONMENT, ray_environment
from rehearsal.run.project import Document

_POD_CPUS: Final = 2
"""The CPUs of a worker's pod. The examples' two workers and their trainer, with a CPU each, then need both pods, so
that each loss has an effect.
"""
WORKERS: Final = 2


def on_processors(document: Document) -> None:
    """Give the first RayCluster two workers of one group, without GPUs: all pods share this machine."""
    clusters = document["ray"]["clusters"]
    del clusters[1:]
    [workers] = clusters[0]["workers"] = clusters[0]["workers"][:1]
    workers.update(cpu=_POD_CPUS, accelerators=0, efa=0, replicas=WORKERS, min_replicas=1)
    workers["max_replicas"] = max(WORKERS, workers["max_replicas"])


def real_ray(environment: EksEnvironment) -> RealRay:
    """Return what runs in the pods of the environment's Ray image, used as a pattern; its dots also match dots."""
    from k8s_charts.ray_objects import ray_image  # noqa: PLC0415 - it starts Node, which is checked first

    return RealRay(ray_image(environment), ray_environment(environment.versions))


def installed() -> list[SetName]:
    """Return the sets of versions whose Ray is installed on this machine."""
    return [name for name in SETS if (ray_environment(name) / "bin").is_dir()]


def real_rays(environment: EksEnvironment) -> list[RealRay]:
    """Return what runs in the pods of the environment's Ray image with each set of versions, the present one's first.

    Where the present set's Ray is not installed, the default set's stands for it.
    """
    present = real_ray(environment)
    if environment.image.uri or environment.versions not in installed():
        present = replace(present, environment=RAY_ENVIRONMENT)
    if environment.image.uri:
        return [present]
    others = (name for name in SETS if name != environment.versions)
    return [present, *(real_ray(environment.model_copy(update={"versions": name})) for name in others)]


def directory(environment: EksEnvironment, plane: Path) -> Path:
    """Return Ray's folder of the shared file system: a folder of this machine, below that of the control plane.

    On a real file system a Job with root rights makes it. A rehearsal has no root rights: its caller makes it.
    """
    return plane / "claims" / f"{environment.ray.namespace}_{environment.fsx.claim}" / RAY_DIRECTORY
