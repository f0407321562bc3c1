"""Rules of the Ray image."""

import re
from collections.abc import Iterator

from config import versions
from config.model import Environment
from config.rules.rule import error
from config.rules.walk import repeated


@error("V14")
def ray_version(environment: Environment) -> Iterator[tuple[str, str]]:
    """Image and RayCluster must hold one version of Ray, the one that the project is tested with."""
    version = environment.ray.version
    if version != versions.RAY:
        yield "ray.version", f"{version!r}; allowed: {versions.RAY}"
    elif environment.image.uri:
        tag = re.search(r":([A-Za-z0-9_.-]+)(@|$)", environment.image.uri)
        said = re.match(r"(?:ray-?)?(\d+\.\d+\.\d+)", tag[1]) if tag else None
        if said and said[1] != version:
            yield "image.uri", f"{environment.image.uri!r} says Ray {said[1]}; allowed: ray.version, {version}"


@error("V50")
def one_image(environment: Environment) -> Iterator[tuple[str, str]]:
    """An image is built into a repository, or it exists."""
    image = environment.image
    if (image.repository is None) == (image.uri is None):
        there = "both" if image.uri else "neither"
        yield "image", f"{there} of repository and uri; allowed: one, to build an image or to use one that exists"


@error("V51")
def pip_requirements(environment: Environment) -> Iterator[tuple[str, str]]:
    """An image that is not pinned differs from build to build, and one that exists takes no packages."""
    image = environment.image
    if image.pip and image.uri and not image.repository:
        yield "image.pip", "needs image.repository: nothing is built of an image that exists"
        return
    for n, requirement in enumerate(image.pip):
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?==[\w.!+-]+", requirement, re.ASCII):
            yield f"image.pip.{n}", f"{requirement!r}; allowed: name==version"
    names = [re.split(r"[\[=]", requirement)[0].lower().replace("_", "-") for requirement in image.pip]
    if twice := repeated(names):
        yield "image.pip", f"{', '.join(twice)} stands there twice"
