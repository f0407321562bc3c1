"""Rules of the scripts that HyperPod runs on new nodes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.model import Environment
from config.rules.rule import error
from config.rules.walk import groups

PROJECT: Final = Path(__file__).resolve().parents[2]
ENTRY_POINT: Final = "on_create.sh"


@error("V17")
def lifecycle_scripts(environment: Environment) -> Iterator[tuple[str, str]]:
    """A script that is missing or cannot start fails each new node, an hour and more after the deployment began.

    The folder is uploaded as it is and `on_create.sh` run as root: Linux line endings and an interpreter are needed
    (awslabs/awsome-distributed-ai #916, #918: a second script that was not uploaded).
    """
    looked_at = set()
    for key, group in groups(environment):
        if group.lifecycle_scripts not in looked_at:
            looked_at.add(group.lifecycle_scripts)
            for message in _faults(group.lifecycle_scripts):
                yield f"{key}.lifecycle_scripts", f"{group.lifecycle_scripts!r} {message}"


def _faults(name: str) -> Iterator[str]:
    folder = _folder(name)
    if folder is None:
        yield "is no folder of the project; allowed: one such as lifecycle_scripts/eks"
        return
    if not (folder / ENTRY_POINT).is_file():
        yield f"has no {ENTRY_POINT}"
    for script in sorted(folder.glob("*.sh")):
        content = script.read_bytes()
        if not content.startswith(b"#!"):
            yield f"has {script.name} without an interpreter; its first line must be #!/bin/bash"
        if b"\r" in content:
            yield f"has {script.name} with Windows line endings; save it with Unix ones"
        for called in _called(content.decode(errors="replace")):
            if not (folder / called).is_file():
                yield f"has no {called}, which {script.name} calls"


def _folder(name: str) -> Path | None:
    try:
        folder = (PROJECT / name).resolve()
        inside = folder != PROJECT and folder.is_relative_to(PROJECT) and folder.is_dir()
    except (OSError, ValueError):
        # A name too long, or with a character that no file name has.
        return None
    return folder if inside else None


def _called(text: str) -> list[str]:
    """Names of scripts of the same folder that a line of code runs."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    here = r"(?:\./|\)/|\$\{?(?:here|(?i:script_?)?(?i:dir))\}?/|\b(?:bash|sh|source)\s+)"
    return sorted(set(re.findall(rf"{here}\"?([\w-]+\.sh)\b", code)))
