"""Keep what a job prints: a process beside the job's program copies Ray's file of its output into the run's folder.

Ray writes the output of a job, with the lines of its workers, into a file of the head. A process of its own reads it:
a slow storage never delays the training, and the output is complete however the program ends.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

from ray_resume.output.kept import OutputWriter

_OUTPUT: Final = Path("/proc/self/fd/1")
# Ray's variable with a job's configuration (ray: dashboard/modules/job/job_supervisor.py).
_CONFIG: Final = "RAY_JOB_CONFIG_JSON_ENV_VAR"
_EVERY_SECONDS: Final = 5.0
# The shell of the entry point may print more when its program has ended.
_QUIET_SECONDS: Final = 2.0
_GIVES_UP_SECONDS: Final = 60.0

_open_until_the_end: Final[list[BinaryIO]] = []
"""A pipe that the system closes when this program ends, however that happens."""


def keep_output(run: str = "", storage: str = "") -> bool:
    """Keep what this program prints, and has printed, in the folder of `run` below `storage`; return whether it will.

    Only a job that was submitted to Ray has its output in a file. `ray_resume.main` calls it; a script without `main`
    calls it once, at its start. The defaults are RUN_NAME and RUN_STORAGE.
    """
    run, storage = run or os.environ.get("RUN_NAME", ""), storage or os.environ.get("RUN_STORAGE", "")
    job = json.loads(os.environ.get(_CONFIG) or "{}").get("metadata", {}).get("job_submission_id")
    if not (job and run and storage) or _open_until_the_end or not stat.S_ISREG(os.fstat(1).st_mode):
        return False
    words = [sys.executable, "-m", __name__, f"--run={run}", f"--storage={storage}", f"--job={job}"]
    words.append(f"--series={os.environ.get('RUN_SERIES', '')}")
    packages = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    read, write = os.pipe()
    try:
        # The job's own file, from its beginning.
        with _OUTPUT.open("rb") as output:
            keeper = subprocess.Popen(
                [*words, f"--over={read}"],
                stdin=output,
                pass_fds=[read],
                env={**os.environ, "PYTHONPATH": packages},
                start_new_session=True,
            )
        # It continues in a child of its own: Ray waits for all descendants of a program that it stops.
        keeper.wait()
    except OSError as error:
        os.close(write)
        print(f"run {run}: warning: output is not kept: {error}", flush=True)
        return False
    finally:
        os.close(read)
    _open_until_the_end.append(os.fdopen(write, "wb"))
    return True


def main() -> None:
    """Copy standard input, a file that grows, until the pipe `over` ends."""
    parser = argparse.ArgumentParser()
    for name in ("run", "storage", "job", "series"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--over", type=int, required=True)
    options = parser.parse_args()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(0, "rb", buffering=0) as output:
        _keep(options, output)


def _keep(options: argparse.Namespace, output: io.FileIO) -> None:
    from ray_resume.storage import StorageError, open_storage  # noqa: PLC0415 (Arrow has threads: not before the fork)

    writer: OutputWriter | None = None
    ended_at: float | None = None
    reported = False
    while True:
        if _is_over(options.over, 0.0 if writer is None else _EVERY_SECONDS) and ended_at is None:
            ended_at = time.monotonic()
        try:
            writer = writer or OutputWriter(open_storage(options.storage, options.run), options.job, options.series)
            found = writer.take(output)
            if ended_at is not None and not found:
                writer.finish()
                return
        except (OSError, StorageError) as error:
            if not reported:
                # Among the job's own lines, and with them kept once the storage works.
                print(f"run {options.run}: warning: output is not kept: {error}", flush=True)
                reported = True
            if ended_at is not None and time.monotonic() >= ended_at + _GIVES_UP_SECONDS:
                return
            time.sleep(_QUIET_SECONDS)


def _is_over(pipe: int, seconds: float) -> bool:
    """Wait for the end of the pipe, `seconds` at most; when it has ended, wait until nobody prints any more."""
    ready, _, _ = select.select([pipe], [], [], seconds)
    if ready:
        time.sleep(_QUIET_SECONDS)
    return bool(ready)


if __name__ == "__main__":
    main()
