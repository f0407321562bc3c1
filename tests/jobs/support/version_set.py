"""The set of versions whose Ray is installed here, from the table itself: the package `config` needs a newer Python."""

import runpy
from importlib import metadata
from typing import Any, Final

from tests.jobs.support.paths import REPOSITORY

TABLE: Final = runpy.run_path(str(REPOSITORY / "config/facts/versions.py"))
SET: Final[Any] = next(each for each in TABLE["SETS"].values() if each.ray == metadata.version("ray"))
