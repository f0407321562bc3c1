"""Show copies: a table for people, data for programs, commands for another machine."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ops.mirror.plan import ArtifactKind, Copy, RequiredCopy


def table(copies: Sequence[Copy], repositories: Sequence[str]) -> Table:
    """Return a table of the copies, and of the repositories that ECR lacks."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("kind", "copy", "state", "digest"):
        drawn.add_column(column, overflow="fold")
    for name in repositories:
        drawn.add_row("repository", name, "missing", "")
    for copy in copies:
        drawn.add_row(copy.wanted.kind, copy.wanted.target, copy.state, copy.digest)
    return drawn


def data(registry: str, copies: Sequence[Copy], repositories: Sequence[str], *, planned: bool) -> dict[str, Any]:
    """Return the same for programs; a chart's source is this machine's cache."""
    return {
        "registry": registry,
        "dry_run": planned,
        "repositories": list(repositories),
        "copies": [
            {
                "kind": str(copy.wanted.kind),
                "source": copy.wanted.source if copy.wanted.kind is ArtifactKind.IMAGE else "chart cache",
                "copy": copy.wanted.target,
                "digest": copy.digest,
                "state": str(copy.state),
            }
            for copy in copies
        ],
    }


def commands(wanted: Sequence[RequiredCopy]) -> list[str]:
    """Return the commands that copy the images where crane is installed."""
    return [f"crane copy {each.source} {each.target}" for each in wanted if each.kind is ArtifactKind.IMAGE]
