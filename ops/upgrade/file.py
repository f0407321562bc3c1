"""Write a set of versions into the text of an environment's file."""

import re
from typing import Any, Final

import yaml

from config import EksEnvironment
from config.facts.versions import SETS, SetName
from config.findings import Place
from ops.environment.migrate import span
from ops.errors import RefusedError

_KEY: Final = "versions"
_OWN: Final[tuple[Place, ...]] = (("kuberay", "version"), ("ray", "version"))
"""Keys that override a version of the set."""


def with_set(environment: EksEnvironment, text: str, name: SetName) -> str:
    """Return the file's text with this set of versions, and without the keys that override it; all else stays.

    Raises RefusedError if the environment's image is not built: it then has the Ray of its owner's choice.
    """
    if environment.image.uri and environment.ray_version != SETS[name].ray:
        raise RefusedError(
            f"{environment.name}: image.uri has Ray {environment.ray_version}, and `--to {name}` needs Ray "
            f"{SETS[name].ray}. Fix: build an image with it, write image.uri, ray.version and versions: {name}, then "
            f"`ops upgrade --env {environment.name}`"
        )
    for place in _OWN:
        if place != ("ray", "version") or not environment.image.uri:
            text = _without(text, place)
    return _with_value(text, name)


def _without(text: str, place: Place) -> str:
    """Return the text without a key, and without the mapping above it if it is the mapping's only key."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, part in enumerate(place):
        found = [value for key, value in node.value if key.value == part]
        if not found:
            return text
        if depth and len(node.value) == 1:
            place = place[:depth]
            break
        node = found[0]
    start, end = span(text, place)
    return text[:start] + text[end:]


def _with_value(text: str, name: str) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in node.value:
        if key.value == _KEY:
            return text[: value.start_mark.index] + name + text[value.end_mark.index :]
    # Above the RayClusters, whose comments are above their key.
    [ray] = [key.start_mark.index for key, _ in node.value if key.value == "ray"] or [len(text)]
    before = re.search(r"(?:^[ \t]*#[^\n]*\n)*\Z", text[:ray], re.MULTILINE)
    at = before.start() if before else ray
    ended = "" if not at or text[at - 1] == "\n" else "\n"
    return f"{text[:at]}{ended}{_KEY}: {name}\n\n{text[at:]}"
