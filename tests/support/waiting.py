"""Wait for events that must happen. No test asserts how soon, because busy machines are slow."""

import time
from collections.abc import Callable
from typing import Final

# Long enough that only a hang exceeds it.
PATIENCE: Final = 180
REHEARSAL_PATIENCE: Final = 3600
KUBECTL_PATIENCE: Final = f"--timeout={PATIENCE}s"


def wait_until(is_true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until `is_true()`; fail with `what` after `seconds`. Pass `seconds` only if the test is about the time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"timed out after {seconds:g} s: {what}"
        time.sleep(0.05)
