"""Build the programs of the versions that an environment chooses."""

from config import EksEnvironment
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.building.binaries import Binaries, Progress
from rehearsal.paths import BINARIES


def built(environment: EksEnvironment, progress: Progress, running: Progress | None = None) -> Binaries:
    """Return the programs of a rehearsal with the environment's KubeRay and Kubernetes; build the missing ones.

    `progress` and `running` are those of `binaries.ensure`. Raises BinariesError.
    """
    kuberay = binaries.with_kuberay(environment.kuberay_version)
    programs = binaries.ensure(BINARIES, progress, kuberay, running)
    binaries.kubernetes_programs(programs, environment.kubernetes_version, progress, running)
    return programs
