"""Give files that share an expensive fixture to one pytest-xdist worker, which creates it once."""

from collections.abc import Collection
from typing import Any

import pytest


def by_file(config: pytest.Config, log: Any, *together: Collection[str]) -> Any:
    """Return a scheduler that gives each worker whole files (`--dist loadfile`), and all files of a group to one.

    Return None, which means xdist's own scheduler, for any other `--dist`. A file is named as in its tests' node ids.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    def scope_of(nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((f"group {number}" for number, files in enumerate(together) if file in files), file)

    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = scope_of
    return scheduler
