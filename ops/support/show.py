"""Show what a bundle holds."""

from rich.table import Table

from ops.support.bundle import Bundle


def table(bundle: Bundle) -> Table:
    """Return a table of the files with their sizes, then of what is missing with the reason."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("file or part", overflow="fold")
    drawn.add_column("bytes", justify="right")
    drawn.add_column("missing", overflow="fold")
    for name, content in bundle.files.items():
        drawn.add_row(name, f"{len(content):,}", "")
    for each in bundle.missing:
        drawn.add_row(each["part"], "", each["reason"])
    return drawn
