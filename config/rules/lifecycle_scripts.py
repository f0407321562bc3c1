"""The rule about the scripts that HyperPod runs on new nodes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.model import Environment
from config.rules.parts import groups
from config.rules.rule import Violation, error

PROJECT: Final = Path(__file__).resolve().parents[2]
ENTRY_POINT: Final = "on_create.sh"
_ALLOWED: Final = f"a folder of the project with {ENTRY_POINT}, such as lifecycle_scripts/eks"


@error("V17")
def lifecycle_scripts(environment: Environment) -> Iterator[Violation]:
    """Require a folder of the project with an `on_create.sh` that can start, and every script that it calls.

    Why: the folder is uploaded unchanged, and the script runs as root. If it is missing or cannot start, each new node
    fails, an hour or more after the deployment began.
    Source: AWS docs, sagemaker-hyperpod-lifecycle-best-practices; awslabs/awsome-distributed-ai #916, #918.
    Example: hyperpod.instance_groups.0.lifecycle_scripts: handlers
    """
    checked = set()
    for key, group in groups(environment):
        if group.lifecycle_scripts not in checked:
            checked.add(group.lifecycle_scripts)
            for reason, fix in _faults(group.lifecycle_scripts):
                yield Violation(f"{key}.lifecycle_scripts", reason, _ALLOWED, fix)


def _faults(name: str) -> Iterator[tuple[str, str]]:
    """Yield each error of a folder: the reason and the fix."""
    folder = folder_of(name)
    if folder is None:
        yield "it is not a folder of the project", "write the folder's path relative to the project's root"
        return
    if not (folder / ENTRY_POINT).is_file():
        yield f"it has no {ENTRY_POINT}", f"add {ENTRY_POINT}, or name another folder"
    for script in sorted(folder.glob("*.sh")):
        content = script.read_bytes()
        if not content.startswith(b"#!"):
            yield f"{script.name} names no interpreter", f"begin {script.name} with the line #!/bin/bash"
        if b"\r" in content:
            yield f"{script.name} has Windows line endings", f"save {script.name} with Unix line endings"
        for called in _called(content.decode(errors="replace")):
            if not (folder / called).is_file():
                yield f"{script.name} calls {called}, which does not exist", f"add {called}, or remove the call"


def folder_of(name: str) -> Path | None:
    """Return the folder of the project that the name means; None if there is none."""
    try:
        folder = (PROJECT / name).resolve()
        inside = folder != PROJECT and folder.is_relative_to(PROJECT) and folder.is_dir()
    except (OSError, ValueError):
        # The name is too long, or has a character that no file name has.
        return None
    return folder if inside else None


def _called(text: str) -> list[str]:
    """Return the names of the same folder's scripts that the code runs."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    here = r"(?:\./|\)/|\$\{?(?:here|(?i:script_?)?(?i:dir))\}?/|\b(?:bash|sh|source)\s+)"
    return sorted(set(re.findall(rf"{here}\"?([\w-]+\.sh)\b", code)))
