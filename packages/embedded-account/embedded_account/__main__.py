"""Run the embedded AWS account until SIGTERM or SIGINT: `python -m embedded_account`."""

import gc
import sys


def run() -> int:
    """Load and serve the account; return its exit code."""
    # Nearly all objects loaded here live as long as the process. Collecting garbage meanwhile takes half of the
    # start-up time.
    gc.disable()
    from embedded_account.server import main  # noqa: PLC0415 - not before

    return main()


if __name__ == "__main__":
    sys.exit(run())
