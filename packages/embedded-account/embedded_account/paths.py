"""Where the package finds what npm installed, and what it loads into the CDK CLI."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError

CDK_PRELOAD: Final = Path(__file__).with_name("cdk_preload.js")
"""Loaded before the CDK CLI: its pauses become simulated time, its compile cache stays its own."""


def _candidates() -> Iterator[Path]:
    """From the working directory upwards, as Node looks; then from this file: where both are in one workspace."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        yield from (folder / "node_modules" for folder in (start, *start.parents))


NODE_MODULES: Final = next((each for each in _candidates() if (each / "aws-cdk").is_dir()), Path("node_modules"))
"""Holds `aws-cdk`, whose database of resource types the account reads, and the SDK clients of functions on Node."""


def require_cdk() -> None:
    """Raise ProcessError when the CDK CLI is not installed."""
    if not (NODE_MODULES / "aws-cdk").is_dir():
        raise ProcessError(f"aws-cdk is in no node_modules of {Path.cwd()} or above. Fix: npm install aws-cdk")
