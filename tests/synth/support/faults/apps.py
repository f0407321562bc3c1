"""The apps whose faults are tried: dev, prod, Slurm's example, and an environment with all parts."""

from pathlib import Path
from typing import Final

from config import Environment
from tests.synth.support.every_key import environment_of, read, set_all
from tests.synth.support.synthesis import Assemblies, Assembly, synthesise

PARTS: Final = "parts"
APPS: Final = ("dev", "prod", "slurm", PARTS)
_NOT_IN_AN_ACCOUNT: Final = {
    "hyperpod.instance_groups[].training_plan": None,
    "hyperpod.instance_groups[].image_id": None,
}
"""Keys of the document of all keys that name what no account has."""


def assembly_of(app: str, assembly: Assemblies, directory: Path) -> Assembly:
    """Return an app's cloud assembly."""
    return synthesise(_all_parts(directory), directory) if app == PARTS else assembly(app)


def _all_parts(directory: Path) -> Environment:
    content = read("new")
    set_all(content, _NOT_IN_AN_ACCOUNT)
    # The last add-on of the document is invented.
    content["eks"]["add_ons"][-1]["name"] = "metrics-server"
    del content["eks"]["add_ons"][-1]["namespace"]
    return environment_of(content, directory)
