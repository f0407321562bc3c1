"""Compare the templates and manifests of two checkouts, for the reviewers of a pull request.

It needs no credentials: it synthesises both checkouts, and the CDK CLI compares their templates. It skips the synthesis
of environments with equal inputs in both.
"""

import difflib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from config import available
from ops.review.checkouts.cdk import ReviewError, cli
from ops.review.checkouts.inputs import ENVIRONMENTS, changed
from ops.review.checkouts.progress import ReviewProgress
from ops.review.checkouts.templates import Checkouts, compared

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# A comment on GitHub holds 65,536 characters.
LIMIT: Final = 60_000


def review(
    base: Path,
    head: Path = REPOSITORY,
    context: Mapping[str, str] | None = None,
    *,
    console: Console | None = None,
) -> str:
    """Return Markdown: for each environment of `head`, its losses and the changes of templates and manifests.

    Args:
        base: The checkout to compare with, set up with `./setup.sh runtime`.
        head: The changed checkout, set up the same way.
        context: CDK context for both syntheses.
        console: Where progress is printed.

    Raises:
        ReviewError: A checkout is not set up or does not synthesise.
    """
    for checkout in (base, head):
        _require_set_up(checkout)
    with tempfile.TemporaryDirectory() as scratch, ReviewProgress(console or Console(quiet=True)) as progress:
        names = changed(base, head)
        unchanged = len(available(head / ENVIRONMENTS)) - len(names)
        progress.say(f"environments with changed inputs: {', '.join(names) or 'none'}; unchanged: {unchanged}")
        templates = compared(Checkouts(base, head, context or {}), names, Path(scratch), progress)
    sections = ["## What this changes"]
    for name in available(head / ENVIRONMENTS):
        manifests = "\n".join(_manifests(base / "manifests" / name, head / "manifests" / name))
        sections.append(f"### {name}")
        if found := templates.get(name):
            sections += [f"> [!WARNING]\n> {warning}" for warning in found.warnings]
            sections.append(_fold("CloudFormation", found.difference, "No stack changes."))
        else:
            sections.append("**CloudFormation**: Unchanged: no input of its synthesis changed.")
        sections.append(_fold("Kubernetes", manifests, "No object changes."))
    gone = set(available(base / ENVIRONMENTS)) - set(available(head / ENVIRONMENTS))
    sections += [
        f"### {name}\n\n**The environment is removed**: its stacks stay until they are destroyed."
        for name in sorted(gone)
    ]
    return "\n\n".join(sections) + "\n"


def _require_set_up(checkout: Path) -> None:
    if not available(checkout / ENVIRONMENTS):
        raise ReviewError(f"{checkout} has no environments/. Allowed: a checkout of this project")
    if not cli(checkout).is_file():
        raise ReviewError(f"{checkout} has no CDK CLI. Fix: run `./setup.sh runtime` there")


def _manifests(base: Path, head: Path) -> Iterator[str]:
    names = {path.relative_to(root) for root in (base, head) for path in root.rglob("*.yaml")}
    for name in sorted(names):
        before, after = (_lines(root / name) for root in (base, head))
        yield from difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []


def _fold(title: str, text: str, nothing: str) -> str:
    if not text.strip():
        return f"**{title}**: {nothing}"
    return f"<details open><summary>{title}</summary>\n\n```diff\n{text.strip()}\n```\n\n</details>"


def cut(text: str) -> str:
    """Cut the review to the size of a GitHub comment; name the command that shows all of it."""
    if len(text) <= LIMIT:
        return text
    kept = text[:LIMIT].rpartition("\n")[0]
    if kept.count("<details") > kept.count("</details>"):
        kept += "\n```\n\n</details>"
    return kept + "\n\n_Cut here: `ops review BASE` shows all of it._\n"
