"""The command `ops` (also `python -m ops`)."""

import gc

# Imported objects live as long as the process: collecting garbage among them takes a thirtieth of `ops check`.
gc.disable()

from ops.cli import app  # noqa: E402
from ops.commands import access, files, image, isolation, job, logs, node, running, status  # noqa: E402

__all__ = ["access", "app", "files", "image", "isolation", "job", "logs", "main", "node", "running", "status"]


def main() -> None:
    """Run the command."""
    gc.freeze()
    gc.enable()
    app(prog_name="ops")


if __name__ == "__main__":
    main()
