"""Show the dated table of support (`config/facts/support.yaml`) on the page docs/operate/upgrade.md."""

from collections.abc import Iterator
from typing import Final

from config.facts import support
from ops.environment.generated import between

_BEGIN: Final = "<!-- Written by `ops schema`, from config/facts/support.yaml. -->"
_END: Final = "<!-- End of what `ops schema` writes. -->"


def with_table(page: str) -> str:
    """Return the page with the current table between its two markers. Raises ValueError if it lacks them."""
    return between(page, _BEGIN, _END, _lines())


def _lines() -> Iterator[str]:
    components = support.table()["components"]
    yield from ("| component | version | supported until | extended until | known flaws |", "|---|---|---|---|---|")
    for found in (each for component in components for each in support.versions(component["name"]).values()):
        flaws = ", ".join(f"{flaw} (mended in {mended})" for flaw, mended in found.flaws.items())
        cells = (found.component, found.version, found.until or "not published", found.extended or "", flaws)
        yield f"| {' | '.join(map(str, cells))} |"
    yield from ("", f"Read on {support.table()['date']}:", "")
    yield from (f"- **{each['name']}**. {each['note']} Source: {each['source']}." for each in components)
