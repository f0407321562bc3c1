"""Write a person's files: each is written whole or not at all."""

import os
from pathlib import Path


def write(file: Path, text: str, *, newline: str | None = None) -> None:
    """Write or replace the file as a whole: an interruption or a full disk leaves what was there before.

    Raises OSError, which names the file.
    """
    if file.exists() and not file.is_file():
        # A device or a pipe, such as /dev/stdout, must not be replaced.
        file.write_text(text, encoding="utf-8")
        return
    # A link stays a link.
    target = file.resolve()
    made = target.with_name(f".{target.name}.{os.getpid()}")
    create(made, text, newline=newline)
    try:
        if target.exists():
            made.chmod(target.stat().st_mode)
        made.replace(target)
    except BaseException:
        made.unlink()
        raise


def create(file: Path, text: str, *, newline: str | None = None) -> None:
    """Write a new file as a whole, or leave none. Raises FileExistsError, or OSError, which names the file."""
    with file.open("x", encoding="utf-8", newline=newline) as stream:
        try:
            stream.write(text)
            stream.flush()
        except BaseException as error:
            file.unlink()
            if isinstance(error, OSError):
                error.filename = str(file)
            raise
