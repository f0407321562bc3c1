"""Which pods really run: a table from images to programs of this machine.

kwok runs no container. Pods that carry the operator or the project's own controllers are run by
`rehearsal.kubernetes.kubelet` as local processes with their own arguments, environment, files and service account.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.kubernetes.binaries import Binaries


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


_KUBERAY_IMAGE: Final = r"(^|/)kuberay/operator([:@]|$)"
_PYTHON_IMAGE: Final = r"(^|/)library/python([:@]|$)"


def table(binaries: Binaries) -> tuple[Program, ...]:
    """The programs of a rehearsal."""
    return (
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


def containers_query(programs: Sequence[Program]) -> str:
    """A query in kwok's jq that yields something for each container of a pod whose image is in the table."""
    patterns = "|".join(f"({program.image})" for program in programs)
    return f'.spec.containers.[] | select(.image | test("{patterns}")) | .name'
