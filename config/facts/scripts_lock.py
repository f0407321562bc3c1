"""Read the lock of the publishers' lifecycle scripts, `scripts.lock.yaml`."""

from functools import cache
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from config.facts.charts_lock import GitFolder
from config.findings import ConfigError

LOCK_FILE: Final = Path(__file__).with_name("scripts.lock.yaml")


class ScriptsError(ConfigError):
    """The publishers' scripts cannot be fetched, or differ from the lock."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{LOCK_FILE}: base-config: {message}")


@cache
def locked() -> GitFolder:
    """Return the pinned folder of scripts."""
    return GitFolder.model_validate(YAML(typ="safe").load(LOCK_FILE))
