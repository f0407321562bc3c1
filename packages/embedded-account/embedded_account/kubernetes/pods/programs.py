"""Which pods really run: a table from images to programs of this machine.

kwok runs no container. Pods that carry the operator or the project's own controllers are run by
`embedded_account.kubernetes.pods.kubelet` as local processes with their own arguments, environment, files and service
account. A pod that asks for root is kwok's, whatever its image: a rehearsal has no root to give.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedded_account.kubernetes.building.binaries import Binaries


@dataclass(frozen=True, kw_only=True)
class Program:
    """What stands for an image."""

    image: str
    """Regular expression that is searched in a container's image (understood alike by Python and kwok's jq)."""
    entrypoint: str
    """The image's own entry point, for a container without a command."""
    executables: Mapping[str, Path]
    """Path inside the image → program on this machine. Any other command fails to start, as it would in the image."""
    ports: Mapping[str, int]
    """Flag with a listen address → port that the program uses without the flag. Each gets a free local port."""
    arguments: Sequence[str] = ()
    """Appended to the container's own arguments; `{namespace}` is the pod's."""


@dataclass(frozen=True)
class RealRay:
    """Ray pods that are Ray, on this machine: every pod of the table then runs in a sandbox (`sandbox`)."""

    image: str
    """Regular expression of Ray's image."""
    environment: Path
    """The Python environment that stands for the image's."""

    @property
    def search_path(self) -> str:
        """PATH of the pods."""
        return f"{self.environment / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


_KUBERAY_IMAGE: Final = r"(^|/)kuberay/operator([:@]|$)"
_PYTHON_IMAGE: Final = r"(^|/)library/python([:@]|$)"
IMAGE_BUILD: Final = r"(^|/)moby/buildkit([:@]|$)"
"""Image of the image build, whose pods the embedded account's stand-in plays, if there is one."""


def table(binaries: Binaries, ray: RealRay | None = None) -> tuple[Program, ...]:
    """The programs of a rehearsal; Ray's are simulated unless asked for."""
    shells = {"/bin/bash": Path("/bin/bash"), "/bin/sh": Path("/bin/sh")}
    real = (Program(image=ray.image, entrypoint="/bin/bash", executables=shells, ports={}),) if ray else ()
    return (
        *real,
        Program(
            image=_KUBERAY_IMAGE,
            entrypoint="/manager",
            executables={"/manager": binaries["kuberay-operator"]},
            ports={"--metrics-addr": 8080, "--health-probe-bind-address": 8082},
            # In a pod the operator reads this from its service account's files, which stand elsewhere here.
            arguments=("--leader-election-namespace={namespace}",),
        ),
        Program(
            image=_PYTHON_IMAGE,
            entrypoint="python",
            # The rehearsal's own Python, whatever the image's version is: the controllers keep to what both know.
            executables={"python": Path(sys.executable)},
            ports={"--listen": 8080},
        ),
    )


def program_of(programs: Sequence[Program], image: str) -> Program | None:
    """The program that stands for an image, if any."""
    return next((program for program in programs if re.search(program.image, image)), None)


def runs(programs: Sequence[Program], spec: Mapping[str, Any]) -> bool:
    """Whether a pod with this spec really runs."""
    wants_root = spec.get("securityContext", {}).get("runAsUser") == 0
    return not wants_root and any(program_of(programs, each["image"]) for each in spec["containers"])


def is_image_build(spec: Mapping[str, Any]) -> bool:
    """Whether a pod with this spec builds the Ray image."""
    return any(re.search(IMAGE_BUILD, each["image"]) for each in spec["containers"])


def containers_query(programs: Sequence[Program], others: Sequence[str] = ()) -> str:
    """A query in kwok's jq that yields something for each container that makes its pod no concern of kwok's.

    `others` are patterns of images, as a program's, whose pods are played elsewhere.
    """
    patterns = "|".join(f"({image})" for image in (*(program.image for program in programs), *others))
    no_root = ".spec | select(.securityContext.runAsUser != 0)"
    return f'{no_root} | .containers.[] | select(.image | test("{patterns}")) | .name'
