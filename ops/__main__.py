"""The command `ops` (also `python -m ops`)."""

from ops.cli import app
from ops.commands import files, running

__all__ = ["app", "files", "main", "running"]


def main() -> None:
    """Entry point of the command."""
    app(prog_name="ops")


if __name__ == "__main__":
    main()
