"""The committed README picture is the one that docs/architecture.py draws."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import config

PICTURE = Path(__file__).parents[3] / "docs" / "architecture.py"


def drawing() -> ModuleType:
    """Load the module that draws the picture; docs/ is not a package."""
    spec = importlib.util.spec_from_file_location("architecture", PICTURE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["architecture"] = module
    spec.loader.exec_module(module)
    return module


def test_the_committed_picture_is_current() -> None:
    module = drawing()
    assert module.FILE.read_text() == module.draw(config.load("dev")), "run `python docs/architecture.py`"
