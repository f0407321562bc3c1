"""`python -m embedded_account`: run the embedded AWS account until SIGTERM or SIGINT."""

import gc
import sys


def run() -> int:
    """Load and serve the account; return its exit code."""
    # Nearly all that is loaded now stays: looking through it for garbage again and again costs half of the start.
    gc.disable()
    from embedded_account.server import main  # noqa: PLC0415 - not before

    return main()


if __name__ == "__main__":
    sys.exit(run())
