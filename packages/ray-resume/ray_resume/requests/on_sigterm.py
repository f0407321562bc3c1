"""Save when the program is told to end: Ray sends SIGTERM to the job that it stops, and SIGKILL some time later."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final

import ray

from ray_resume.requests.save_requests import SaveRequests

GRACE: Final = "RAY_JOB_STOP_WAIT_TIME_S"
"""Ray's variable with the seconds between the two signals (ray: dashboard/modules/job/job_supervisor.py)."""

_RAYS_DEFAULT_SECONDS: Final = 3.0
_MARGIN_SECONDS: Final = 1.0
_ENDED: Final = 128 + signal.SIGTERM


@contextlib.contextmanager
def saving_on_sigterm(run: str, requests: SaveRequests) -> Iterator[None]:
    """Save and end the program if it gets SIGTERM in this block; a second SIGTERM ends it at once.

    Only a program's main thread may handle signals: in any other, the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not ray.is_initialized():
        # Later, it would replace the handler.
        ray.init()
    signalled = threading.Event()

    def end(*_: object) -> None:
        if signalled.is_set():
            os._exit(_ENDED)
        signalled.set()
        # In a thread, because the handler interrupts code that may hold a lock.
        threading.Thread(target=_save_and_end, args=(run, requests), daemon=True).start()

    earlier = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _save_and_end(run: str, requests: SaveRequests) -> None:
    seconds = max(0.0, float(os.environ.get(GRACE) or _RAYS_DEFAULT_SECONDS) - _MARGIN_SECONDS)
    _say(f"run {run}: SIGTERM: saves before it ends, within {seconds:g} s")
    try:
        saved = requests.save_now(seconds=seconds, hold=seconds)
        _say(
            f"run {run}: " + (f"ends at step {saved.step} ({saved.name})" if saved else "ends: it did not save in time")
        )
    except OSError as error:
        _say(f"run {run}: ends without saving: {error}")
    finally:
        # As the watchdog does: Ray ends the workers of a driver that is gone.
        os._exit(_ENDED)


def _say(text: str) -> None:
    print(text, flush=True)
    sys.stderr.flush()
