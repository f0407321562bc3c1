"""Waiting for what must happen. How soon is no test's business unless its name says so: machines are busy."""

import time
from collections.abc import Callable
from typing import Final

# Long enough that only what hangs is given up.
PATIENCE: Final = 180
KUBECTL_PATIENCE: Final = f"--timeout={PATIENCE}s"


def wait_until(is_true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Fail, naming `what`, when it does not become true; `seconds` where the time itself is what is tested."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
