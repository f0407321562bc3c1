"""Map images to programs of this machine, and so decide which pods really run.

kwok runs no container. Pods with the operator or the project's own controllers run as local processes, started by
`embedded_account.kubernetes.pods.kubelet` with their own arguments, environment, files and service account. kwok
simulates pods that request root, whatever their image, because a rehearsal has no root rights. Outside of sandboxes it
also simulates those that call pods by their addresses.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedded_account.kubernetes.building.binaries import OPERATOR, Binaries


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of this machine that is used instead of an image."""

    image: str
    """Regular expression searched in a container's image; Python and kwok's jq read it alike."""
    entrypoint: str
    """The image's own entry point, for a container without a command."""
    executables: Mapping[str, Path]
    """Path inside the image → program on this machine. Any other command fails to start, as it would in the image."""
    ports: Mapping[str, int]
    """Flag with a listen address → port that the program uses without the flag. Each gets a free local port."""
    arguments: Sequence[str] = ()
    """Arguments after the container's own ones; `{namespace}` is the pod's."""


@dataclass(frozen=True)
class RealRay:
    """Real Ray in the pods of an image, on this machine: all pods of the table then run in sandboxes (`sandbox`)."""

    image: str
    """Regular expression of the image, without `=`."""
    environment: Path
    """The Python environment used instead of the image's."""

    @classmethod
    def parsed(cls, text: str) -> "RealRay":
        """Return what `str` wrote, for command lines."""
        image, _, environment = text.partition("=")
        return cls(image, Path(environment))

    def __str__(self) -> str:
        return f"{self.image}={self.environment}"

    @property
    def search_path(self) -> str:
        """Return the PATH of the pods."""
        return f"{self.environment / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def ray_of(rays: Sequence[RealRay], spec: Mapping[str, Any]) -> RealRay:
    """Return whose programs a pod with this spec finds: its own image's, or for an image without Ray the first's."""
    images = [each["image"] for each in spec["containers"]]
    return next((ray for ray in rays if any(re.search(ray.image, image) for image in images)), rays[0])


CALL_PODS: Final = ("controllers.sleeper",)
"""Modules whose programs call pods by their addresses.

Only in sandboxes do these addresses lead to the pods: a plain process would call whoever has them in this machine's
network. A pod whose manifest has `AWS_ROLE_ARN`, which EKS alone writes, is a test's, with addresses of its own.
"""
_ROLE: Final = "AWS_ROLE_ARN"
_KUBERAY_IMAGE: Final = r"(^|/)kuberay/operator([:@]|$)"
_PYTHON_IMAGE: Final = r"(^|/)library/python([:@]|$)"


def table(binaries: Binaries, rays: Sequence[RealRay] = ()) -> tuple[Program, ...]:
    """Return the programs of a rehearsal; Ray is simulated except in the images of `rays`."""
    shells = {"/bin/bash": Path("/bin/bash"), "/bin/sh": Path("/bin/sh")}
    real = (Program(image=ray.image, entrypoint="/bin/bash", executables=shells, ports={}) for ray in rays)
    # Operators of further versions first (`binaries.add_operator`): an environment may change its version.
    others = sorted(binaries.directory.glob(f"{OPERATOR}-*"))
    versions = {
        f"(^|/)kuberay/operator:v{each.name.removeprefix(f'{OPERATOR}-').replace('.', '[.]')}$": each for each in others
    }
    return (
        *real,
        *(_operator(image, program) for image, program in versions.items()),
        _operator(_KUBERAY_IMAGE, binaries[OPERATOR]),
        Program(
            image=_PYTHON_IMAGE,
            entrypoint="python",
            # The rehearsal's own Python, whatever the image's version: the controllers use only features of both.
            executables={"python": Path(sys.executable)},
            ports={"--listen": 8080},
        ),
    )


def _operator(image: str, program: Path) -> Program:
    """Return KubeRay's operator."""
    return Program(
        image=image,
        entrypoint="/manager",
        executables={"/manager": program},
        ports={"--metrics-addr": 8080, "--health-probe-bind-address": 8082},
        # In a pod the operator reads this from its service account's files, which are elsewhere here.
        arguments=("--leader-election-namespace={namespace}",),
    )


def program_of(programs: Sequence[Program], image: str) -> Program | None:
    """Return the program used instead of an image, or None."""
    return next((program for program in programs if re.search(program.image, image)), None)


def runs(programs: Sequence[Program], spec: Mapping[str, Any], *, sandboxed: bool) -> bool:
    """Return whether a pod with this spec really runs; `sandboxed` says whether pods run in sandboxes."""
    wants_root = spec.get("securityContext", {}).get("runAsUser") == 0
    words = {
        word
        for each in spec["containers"]
        if _ROLE not in {variable["name"] for variable in each.get("env", ())}
        for word in each.get("command", ())
    }
    calls_pods = not sandboxed and not words.isdisjoint(CALL_PODS)
    found = any(program_of(programs, each["image"]) for each in spec["containers"])
    return found and not wants_root and not calls_pods


def containers_query(programs: Sequence[Program], others: Sequence[str] = (), *, sandboxed: bool) -> str:
    """Return a query in kwok's jq that yields a value for each container whose pod kwok must ignore.

    `others` are further image patterns, in the form of a program's, whose pods are simulated elsewhere.
    """
    patterns = "|".join(f"({image})" for image in (*(program.image for program in programs), *others))
    no_root = ".spec | select(.securityContext.runAsUser != 0)"
    given = f'([.env[]? | .name] | index("{_ROLE}") != null)'
    alone = "".join(f' | select({given} or (.command | index("{each}") == null))' for each in CALL_PODS)
    alone = "" if sandboxed else alone
    return f'{no_root} | .containers.[] | select(.image | test("{patterns}")){alone} | .name'
