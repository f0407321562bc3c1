"""Where the package finds what npm installed for the workspace."""

from pathlib import Path
from typing import Final

NODE_MODULES: Final = Path(__file__).resolve().parents[3] / "node_modules"
