"""What the package loads into the CDK CLI, and where it finds what npm installed."""

from pathlib import Path
from typing import Final

CDK_PRELOAD: Final = Path(__file__).with_name("cdk_preload.js")
"""Loaded before the CDK CLI: shortens its pauses to simulated time, and keeps its compile cache from its children."""


def nearest_node_modules() -> Path:
    """Return the `node_modules` with the CDK CLI, from the working directory upwards, as Node looks for a package."""
    start = Path.cwd()
    candidates = [folder / "node_modules" for folder in (start, *start.parents)]
    return next((each for each in candidates if (each / "aws-cdk").is_dir()), candidates[0])
