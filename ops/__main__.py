"""The command `ops` (also `python -m ops`)."""

import atexit
import gc
import os
import sys

# Imported objects live as long as the process: collecting garbage among them takes a thirtieth of `ops check`.
gc.disable()

from ops import guard, sign_of_life  # noqa: E402


def main() -> int:
    """Run the command and return its exit code."""
    app = guard.application(sys.argv[1:])
    gc.freeze()
    # Most commands end before they have made this many objects; those that watch go on, and collect.
    gc.set_threshold(50_000)
    gc.enable()
    return guard.run(app)


def program() -> None:
    """Run the command; end the process after its threads and exit functions, without freeing each object.

    Freeing them takes a fortieth of `ops check`.
    """
    sign_of_life.watch()
    code: list[int] = []
    # The first exit function is the last one that is called.
    atexit.register(_end, code)
    code.append(main())
    sys.exit(code[0])


def _end(code: list[int]) -> None:
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code[0])


if __name__ == "__main__":
    program()
