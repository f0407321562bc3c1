"""The command `ops` (also `python -m ops`)."""

import gc
import sys

# Imported objects live as long as the process: collecting garbage among them takes a thirtieth of `ops check`.
gc.disable()

from ops import guard  # noqa: E402
from ops.commands import app  # noqa: E402

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    gc.freeze()
    gc.enable()
    sys.exit(guard.run(app))


if __name__ == "__main__":
    main()
