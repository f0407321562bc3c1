"""Read the environment variables that a person gives a job: `--variable KEY=VALUE`."""

import re
from collections.abc import Sequence
from typing import Final

from config.rules.ray import OWN_VARIABLES
from config.rules.secrets import form_of_secret, suggests_secret
from ops.jobs.packing import EntryError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# The training library and the supervisor, Ray and KubeRay, torchrun: what they set or read belongs to them.
_OWN_PREFIXES: Final = ("RUN_", "RAY_", "KUBERAY_", "PET_", "TORCHELASTIC_")
# Each worker's own, from Ray Train (ray: train/torch/config.py), Ray (ray: _private/accelerators) and torchrun.
_OF_ONE_WORKER: Final = {
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("ACCELERATE_TORCH_DEVICE", "CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES"),
}


def variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables by name. Raises EntryError, whose message contains no value."""
    found: dict[str, str] = {}
    for number, word in enumerate(given, start=1):
        name, separator, value = word.partition("=")
        # Without a separator, the word may be a value.
        place = f"--variable {name!r}" if separator and _NAME.fullmatch(name) else f"--variable number {number}"
        if refusal := _refusal(name, separator, value, found):
            reason, fix = refusal
            raise EntryError(f"{place} is invalid (its value is not shown): {reason}. Fix: {fix}")
        found[name] = value
    return found


def secrets_by_name(names: Sequence[str]) -> list[str]:
    """Return those names that suggest a secret."""
    return [name for name in names if suggests_secret(name)]


def _refusal(name: str, separator: str, value: str, found: dict[str, str]) -> tuple[str, str] | None:
    """Return why a variable is refused, and the fix; None if it is not refused."""
    if not separator:
        return "it has no `=`. Allowed: KEY=VALUE", "write KEY=VALUE; KEY= gives an empty value"
    if not _NAME.fullmatch(name):
        return "its name is wrong. Allowed: letters, digits and underscores, with no digit first", "write KEY=VALUE"
    if name.startswith(_OWN_PREFIXES) or name in _OF_ONE_WORKER or name in OWN_VARIABLES:
        return "Ray, torchrun or this project sets it. Allowed: other names", "leave it out"
    if name in found:
        return "it is given twice", "give it once"
    if form := form_of_secret(value):
        reason = f"it has the form of {form}, and everyone who can read Jobs would see it. Allowed: no secrets"
        return reason, f"let the platform team add {name} to ray.clusters[].secrets"
    return None if _is_utf8(value) else ("it is not UTF-8", "write its value in UTF-8")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
