"""The number of a job's workers as a range: variables that the training library reads."""

from ops.jobs.packing import EntryError


def with_range(command: str, fewest: int | None, most: int | None, wait: float | None) -> str:
    """Return the command of a job that trains with `fewest` to `most` workers; with its own number if both are None.

    After `wait` seconds without resources for `most` workers, the job continues with fewer.

    Raises:
        EntryError: the numbers do not fit together.
    """
    if fewest is None and most is None and wait is None:
        return command
    if fewest is None or most is None:
        raise EntryError("--min-workers, --max-workers and --wait-for-workers belong together. Fix: give the first two")
    if fewest > most:
        raise EntryError(f"--min-workers {fewest} is invalid. Allowed: 1 to {most}, the value of --max-workers")
    variables = [f"RUN_MIN_WORKERS={fewest}", f"RUN_MAX_WORKERS={most}"]
    if wait is not None:
        variables.append(f"RUN_WAIT_FOR_WORKERS={max(1, round(wait))}")
    # In the command itself, so that every way to submit carries it, and `ops job list` shows it.
    return " ".join(("env", *variables, command))
