"""Patience of the project's tests: the embedded account's own, and more for a whole rehearsal."""

from typing import Final

from embedded_account.testing.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS, wait_until

__all__ = ["KUBECTL_PATIENCE", "PATIENCE_SECONDS", "REHEARSAL_PATIENCE_SECONDS", "wait_until"]

REHEARSAL_PATIENCE_SECONDS: Final = 3600
