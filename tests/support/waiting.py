"""Patience of the project's tests: the embedded account's own, and more for a whole rehearsal."""

from typing import Final

from embedded_account.testing.waiting import KUBECTL_PATIENCE, PATIENCE, wait_until

__all__ = ["KUBECTL_PATIENCE", "PATIENCE", "REHEARSAL_PATIENCE", "wait_until"]

REHEARSAL_PATIENCE: Final = 3600
