"""Wait for events that must happen. No test asserts how soon, because busy machines are slow."""

import time
from collections.abc import Callable
from typing import Final

# Long enough that only a hang exceeds it, also where ten processes wait for each core.
PATIENCE_SECONDS: Final = 600
KUBECTL_PATIENCE: Final = f"--timeout={PATIENCE_SECONDS}s"

# A short wait ends at once; a long one costs the core, and the server that is asked, two polls a second.
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 0.5


def wait_until(is_true: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until `is_true()`; fail with `what` after `seconds`. Pass `seconds` only if the test is about the time."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"timed out after {seconds:g} s: {what}"
        time.sleep(pause)
        pause = min(1.3 * pause, _LONGEST_PAUSE_SECONDS)
