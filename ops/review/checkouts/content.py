"""Find what changes of the files that run without a declaration to judge: people read it as a diff.

They reach nodes, pods, functions and images, or run in workflows, before the gate or in a synthesis. A list of
dangerous lines cannot judge a program, so these files have owners: `ops.review.checkouts.owners` writes CODEOWNERS from
the same table. What no line of the table names has owners too.
"""

import difflib
import hashlib
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from config import available
from ops.review.checkouts import tracked
from ops.review.checkouts.inputs import ENVIRONMENTS, own_folders, walk
from ops.review.model import Content, ContentChange

OWNERS: Final[tuple[tuple[str, Content | None], ...]] = (
    ("*", Content.OTHER),
    *((path, None) for path in ("/CHANGELOG.md", "/CONTRIBUTING.md", "/LICENSE", "/README.md", "/SECURITY.md")),
    *((path, None) for path in ("/bench/", "/docs/", "/environments/", "/manifests/", "/rehearsal/", "/tests/")),
    ("/packages/embedded-account/", None),
    *((path, Content.TEMPLATES) for path in ("/app.py", "/cdk.json", "/config/", "/k8s_charts/", "/stacks/")),
    ("/handlers/", Content.FUNCTIONS),
    *((path, Content.PODS) for path in ("/controllers/", "/packages/ray-resume/", "/ray_jobs/")),
    ("/packages/ray-resume/*.md", None),
    ("/lifecycle_scripts/", Content.NODES),
    ("/ray_image/", Content.IMAGE),
    ("/stacks/delivery/", Content.ROLES),
    *((path, Content.BEFORE) for path in ("/ops/", "/requirements/", "/requirements.txt", "/setup.sh", "/Makefile")),
    *((path, Content.BEFORE) for path in ("/.npmrc", "/package.json", "/package-lock.json", "/pyproject.toml")),
    *((path, Content.BEFORE) for path in ("/.devcontainer/", "/.pre-commit-config.yaml", "/packages/*/pyproject.toml")),
    ("/config/facts/charts.lock.yaml", Content.BEFORE),
    *((path, Content.GATE) for path in ("/ops/gate/", "/ops/review/", "/ops/commands/deploy/review.py")),
    ("/environments/approvals/", Content.GATE),
    *((path, Content.WORKFLOWS) for path in ("/.ci/", "/.github/")),
)
"""Patterns in the words of CODEOWNERS, and what the files are; None: nobody has to read them. The last match counts."""
_MOST_OF_A_FILE: Final = 1000
_MOST_OF_ALL: Final = 5000
"""Lines of diffs that a verdict holds."""
_MOST_CHARACTERS: Final = 400
_CONTEXT: Final = 3
_DESCRIBED: Final = "\0"
# Comparing lines takes the square of their number at worst.
_MOST_COMPARED: Final = 5000


def owner_of(path: str) -> Content | None:
    """Return what a file is, by its path from the top of the checkout; None if nobody has to read it."""
    return next((content for pattern, content in reversed(OWNERS) if _regular(pattern).match(path)), None)


def changed_content(base: Path, head: Path) -> tuple[ContentChange, ...]:
    """Return the files with owners that differ, in the order of `Content`.

    Raises ReviewError if git cannot read a checkout.
    """
    owned = _content(base)
    kinds = _content(head) | owned
    # A file that nobody owned was read by nobody: it is shown whole, wherever it comes from.
    sides = {name: (_lines(base / name) if name in owned else None, _lines(head / name)) for name in sorted(kinds)}
    differing = {name: side for name, side in sides.items() if side[0] != side[1]}
    removed = {tuple(old): name for name, (old, new) in differing.items() if old and new is None and name in owned}
    moved = {
        name: removed.pop(tuple(new))
        for name, (old, new) in differing.items()
        if old is None and new and tuple(new) in removed
    }
    found = [ContentChange(kinds[name], name, 1, f"moved from {earlier}") for name, earlier in moved.items()]
    left = differing.keys() - moved.keys() - set(moved.values())
    # Thousands of files of one kind must not take the place of another kind's.
    differing_kinds = {kinds[name] for name in left}
    budget = dict.fromkeys(differing_kinds, _MOST_OF_ALL // max(1, len(differing_kinds)))
    # The smallest first: a long file must not take the place of a short one.
    for change in sorted((_change(kinds[name], name, *differing[name]) for name in left), key=_size):
        shown = _shown(change, max(0, min(_MOST_OF_A_FILE, budget[change.kind])))
        budget[change.kind] -= shown.diff.count("\n") + 1
        found.append(shown)
    order = list(Content)
    return tuple(sorted(found, key=lambda each: (order.index(each.kind), each.path)))


@cache
def _regular(pattern: str) -> re.Pattern[str]:
    """Return the expression for a pattern of CODEOWNERS: a folder, a file, or `*` within a name."""
    if pattern == "*":
        return re.compile("")
    return re.compile(
        re.escape(pattern.removeprefix("/")).replace(r"\*", "[^/]*") + ("" if pattern.endswith("/") else "$")
    )


def _content(checkout: Path) -> dict[str, Content]:
    """Return the files with owners: those that git tracks, or all if it is no checkout of git."""
    names = tracked.files(checkout)
    if names is None:
        names = [path.relative_to(checkout).as_posix() for path in walk(checkout)]
    scripts = tuple(
        f"{folder.relative_to(checkout).as_posix()}/"
        for name in available(checkout / ENVIRONMENTS)
        for folder in own_folders(checkout, name)
    )
    kinds = {name: owner_of(name) or (Content.NODES if name.startswith(scripts) else None) for name in names}
    return {name: kind for name, kind in kinds.items() if kind}


def _lines(file: Path) -> list[str] | None:
    """Return what a file is as lines; None if it does not exist. No line of a text equals one that describes it."""
    if file.is_symlink():
        return [f"link to {file.readlink()}{_DESCRIBED}"]
    if not file.is_file():
        return [f"a folder{_DESCRIBED}"] if file.exists() else None
    data = file.read_bytes()
    executable = [f"executable{_DESCRIBED}"] if file.stat().st_mode & 0o100 else []
    if b"\0" in data:
        digest = hashlib.sha256(data).hexdigest()
        return [*executable, f"{len(data)} bytes that are no text, SHA-256 {digest}{_DESCRIBED}"]
    text = data.decode(errors="backslashreplace").removesuffix("\n")
    return [*executable, *(text.split("\n") if text else ())]


def _change(kind: Content, name: str, old: list[str] | None, new: list[str] | None) -> ContentChange:
    if max(len(old or ()), len(new or ())) > _MOST_COMPARED:
        before, after = Counter(old), Counter(new)
        return ContentChange(kind, name, (before - after).total() + (after - before).total(), "")
    lines = list(difflib.unified_diff(old or [], new or [], n=_CONTEXT, lineterm=""))[2:]
    return ContentChange(kind, name, max(1, sum(not line.startswith(("@", " ")) for line in lines)), "\n".join(lines))


def _size(change: ContentChange) -> tuple[int, str]:
    return change.diff.count("\n"), change.path


def _shown(change: ContentChange, most: int) -> ContentChange:
    """Return the change with at most so many lines of its diff, and a line that counts the others."""
    lines = change.diff.split("\n") if change.diff else []
    shown = [line if len(line) <= _MOST_CHARACTERS else _cut(line) for line in lines[:most]]
    left = sum(not line.startswith(("@", " ")) for line in lines[most:]) if lines else change.lines
    more = [f"… {left:,} more lines are not shown: read the file"] if left else []
    return replace(change, diff="\n".join([*shown, *more]).replace(_DESCRIBED, ""))


def _cut(line: str) -> str:
    return f"{line[:_MOST_CHARACTERS]}… {len(line) - _MOST_CHARACTERS:,} more characters are not shown: read the file"
