"""The command `ops` (also `python -m ops`)."""

import gc
import sys

# Imported objects live as long as the process: collecting garbage among them takes a thirtieth of `ops check`.
gc.disable()

from ops import guard  # noqa: E402


def main() -> None:
    """Run the command."""
    app = guard.application(sys.argv[1:])
    gc.freeze()
    gc.enable()
    sys.exit(guard.run(app))


if __name__ == "__main__":
    main()
