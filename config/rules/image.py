"""Rules about the Ray image."""

import re
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Final

from config.facts import versions
from config.facts.instance_types import catalogue
from config.facts.support import number
from config.facts.versions import VersionSet
from config.model import EksEnvironment
from config.rules.parts import groups, repeated, workers
from config.rules.rule import Violation, error

RAY_IMAGE: Final = Path(__file__).resolve().parents[2] / "ray_image"
CUDA_RUNTIME: Final = r"nvidia-cuda-runtime(?:-cu\d+)?"
"""The package of CUDA in a lock, as a regular expression: from CUDA 13 on its name has no version."""
_CONTINUED: Final = "\0"
_PINNED: Final = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?==[\w.!+-]+( ?;.*)?", re.ASCII)
_HASH: Final = "--hash=sha256:"
_BEGINNING: Final = itemgetter(slice(len(_HASH)))


@error("V14")
def ray_version(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a Ray version that the project is tested with, the same in image and RayCluster.

    Why: Ray nodes of another version cannot join the head, and an image is built with the Ray of its `versions`.
    Source: Ray docs, cluster FAQ; config/facts/versions.py.
    Example: ray.version: 2.43.0
    """
    version, built = environment.ray_version, environment.version_set.ray
    names = {each.ray: name for name, each in versions.SETS.items()}
    if version not in names:
        allowed = built if environment.image.built else ", ".join(names)
        yield Violation("ray.version", "this project is not tested with it", allowed, f"write {built}")
    elif environment.image.built and version != built:
        reason = f"the image is built with versions: {environment.versions}, which has Ray {built}"
        fix = f"remove ray.version, or choose versions: {names[version]}"
        yield Violation("ray.version", reason, f"{built}; any of {', '.join(names)} with an image.uri", fix)
    elif environment.image.uri:
        tag = re.search(r":([A-Za-z0-9_.-]+)(@|$)", environment.image.uri)
        stated = re.match(r"(?:ray-?)?(\d+\.\d+\.\d+)", tag[1]) if tag else None
        if stated and stated[1] != version:
            reason = f"its tag names Ray {stated[1]}, but ray.version is {version}"
            yield Violation("image.uri", reason, f"images with Ray {version}", "name another image")


@error("V50")
def one_image(environment: EksEnvironment) -> Iterator[Violation]:
    """Require `image.repository` or `image.uri`, and not both.

    Why: an image is either built into a repository or exists already.
    Source: this project, docs/operate/ray-image.md.
    Example: "image": {}
    """
    image = environment.image
    if (image.repository is None) == (image.uri is None):
        there = "both repository and uri" if image.uri else "neither repository nor uri"
        yield Violation(
            "image",
            "an image is either built into a repository or exists already",
            "repository, or uri",
            "remove one of the two" if image.uri else "add repository to build an image, or uri to use one",
            there,
        )


@error("V51")
def pip_requirements(environment: EksEnvironment) -> Iterator[Violation]:
    """Require pinned packages, each once, for a built image only.

    Why: builds of unpinned packages differ, and an existing image cannot get packages.
    Source: pip documentation, repeatable installs.
    Example: image.pip: ["einops>=0.8"]
    """
    image = environment.image
    if image.pip and image.uri and not image.repository:
        reason = "an existing image is not built"
        yield Violation("image.pip", reason, "pip beside repository", "remove pip, or build the image with repository")
        return
    for n, requirement in enumerate(image.pip):
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?==[\w.!+-]+", requirement, re.ASCII):
            fix = "write the name, two equals signs and the version"
            yield Violation(f"image.pip.{n}", "it is not pinned", "name==version, such as einops==0.8.1", fix)
    names = package_names(image.pip)
    for first, second, *_ in repeated(names).values():
        reason = f"image.pip.{first} names the same package"
        yield Violation(f"image.pip.{second}", reason, "each package once", "delete one of the two")


@error("V75")
def locked_requirements(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that the image's lock pins each package with its hashes.

    Why: the build installs with --require-hashes, and would fail in the cluster an hour after the deployment began.
    Source: pip documentation, hash-checking mode.
    Example: ray_image/requirements.txt: torch>=2.0
    """
    if environment.image.uri is not None:
        return
    lock = RAY_IMAGE / environment.version_set.requirements
    yield from _unlocked_lines(lock, lock.read_text())


@cache
def _unlocked_lines(file: Path, text: str) -> tuple[Violation, ...]:
    """Return the violations of the lock file, which has this text."""
    found = []
    for line, requirement, options in requirements(text):
        if reason := unlocked(requirement, options):
            stated = repr(requirement or " ".join(options))
            name = re.split(r"[^\w.-]", requirement)[0]
            fix = "edit ray_image/requirements.in and run `make lock`"
            allowed = "name==version --hash=sha256:…"
            found.append(Violation(name, reason, allowed, fix, stated, file=file, line=line))
    return tuple(found)


def requirements(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line number, requirement and options of each entry of a requirements file; comments are left out."""
    line = 1
    for written in text.replace("\\\n", _CONTINUED).split("\n"):
        requirement, options = _parts(written)
        if requirement or options:
            yield line, requirement, options
        line += written.count(_CONTINUED) + 1


def _parts(written: str) -> tuple[str, list[str]]:
    """Return a requirement and its options; both empty for a blank line or a comment."""
    words = written.replace(_CONTINUED, " ").split()
    if not words or words[0].startswith("#"):
        return "", []
    cut = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
    return " ".join(words[:cut]), words[cut:]


def unlocked(requirement: str, options: list[str]) -> str:
    """Return why a requirement is not locked, or an empty text.

    One regular expression for all would take a tenth of the time of `ops check`.
    """
    if not _PINNED.fullmatch(requirement):
        return "it is not pinned"
    whole = set(map(_BEGINNING, options)) == {_HASH} and set(map(len, options)) == {len(_HASH) + 64}
    return "" if whole else "its sha256 hashes are missing or incomplete"


def package_names(requirements: tuple[str, ...]) -> list[str]:
    """Return the names of packages, as indexes compare them."""
    return [re.split(r"[\[=]", requirement)[0].lower().replace("_", "-") for requirement in requirements]


@error("V106")
def cuda_of_the_gpus(environment: EksEnvironment) -> Iterator[Violation]:
    """Require an image whose CUDA computes on the GPUs of Ray's workers.

    Why: PyTorch built for an older CUDA has no kernels for newer GPUs, so that the first computation of each job fails
    there. The finding names the sets of versions that compute on them.
    Source: llm-d/llm-d #5; NVIDIA-Digital-Bio/Proteina-Complexa #59; config/facts/instance_types.yaml.
    Example: hyperpod.instance_groups.1.instance_type: ml.p6-b200.48xlarge
    """
    if not environment.image.built:
        return
    built = ".".join(locked(environment.version_set, CUDA_RUNTIME).split(".")[:2])
    used = {group.instance_group for _, group in workers(environment)}
    for key, group in groups(environment):
        known = catalogue().get(group.instance_type)
        least = known.cuda if known else None
        if built and least and group.name in used and number(built) < number(least):
            drive = [
                name for name, each in versions.SETS.items() if number(locked(each, CUDA_RUNTIME)) >= number(least)
            ]
            yield Violation(
                f"{key}.instance_type",
                f"its GPUs need CUDA {least}, newer than the {built} of the built image's PyTorch "
                f"(versions: {environment.versions})",
                f"other types, versions: {' or '.join(drive)}, or an image.uri with PyTorch for CUDA {least} or newer",
                f"choose versions: {drive[0]}, or build an image with PyTorch 2.7 or newer "
                f"(cu{least.replace('.', '')}) and write it as image.uri",
            )


def locked(version_set: VersionSet, package: str) -> str:
    """Return the version of a package, given as a regular expression, in the lock of the image; empty without it."""
    lock = (RAY_IMAGE / version_set.requirements).read_text()
    found = re.search(rf"^{package}==(\S+)", lock, re.MULTILINE)
    return found[1] if found else ""
