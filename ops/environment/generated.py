"""Put what `ops schema` generates between the two markers of a page that people write."""

from collections.abc import Iterable


def cell(text: str) -> str:
    """Return the text as the cell of a table in Markdown."""
    return text.replace("|", "\\|")


def between(page: str, begin: str, end: str, lines: Iterable[str]) -> str:
    """Return the page with these lines between its two markers. Raises ValueError if it lacks them."""
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"the page has no place for the table. Fix: write {begin} and {end} where it belongs")
    return "\n".join([before + begin, "", *lines, "", end + after])
