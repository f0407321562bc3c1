"""Run FSx's data repository tasks and follow them: imports of metadata to the file system, exports from it."""

import csv
import io
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from ops.data.errors import TaskFailedError
from ops.data.links import LinkedPath
from ops.data.plan import REPORTS
from ops.errors import RefusedError

IMPORT: Final = "IMPORT_METADATA_FROM_REPOSITORY"
EXPORT: Final = "EXPORT_TO_REPOSITORY"
WORDS: Final = {IMPORT: "import", EXPORT: "export"}
_ACTIVE: Final = ("PENDING", "EXECUTING")
_POLL_SECONDS: Final = 2.0
_SHOWN_FAILURES: Final = 5

Say = Callable[[str], None]
Task = Mapping[str, Any]


def active(fsx: Any, file_system: str) -> list[Task]:
    """Return the file system's tasks that have not ended."""
    filters = [
        {"Name": "file-system-id", "Values": [file_system]},
        {"Name": "task-lifecycle", "Values": list(_ACTIVE)},
    ]
    found: list[Task] = fsx.describe_data_repository_tasks(Filters=filters)["DataRepositoryTasks"]
    return found


def run(fsx: Any, s3: Any, place: LinkedPath, kind: str, say: Say, *, timeout: float, join: bool) -> None:
    """Carry out an import or export of `place`, and follow it to its end.

    Args:
        fsx: A boto3 client.
        s3: A boto3 client; it reads the report of a failed task.
        place: What to import or export.
        kind: IMPORT or EXPORT.
        say: Takes each change of the task's state.
        timeout: Seconds after which RefusedError is raised; the task continues.
        join: Follow a running task of the same place and kind instead.

    Raises:
        RefusedError: another task runs on the file system, or this one has not ended in time.
        TaskFailedError: FSx could not carry it out, or somebody cancelled it.
    """
    path = place.address if kind == IMPORT else str(place.path.relative_to("/"))
    deadline, began = time.monotonic() + timeout, time.monotonic()
    running = [each for each in active(fsx, place.link.file_system) if (each["Type"], each["Paths"]) == (kind, [path])]
    task = running[0] if running and join else _create(fsx, place, kind, path)
    reported = ""
    while task["Lifecycle"] not in ("SUCCEEDED", "FAILED", "CANCELED"):
        if (line := _line(task)) != reported:
            say(f"{line}, {time.monotonic() - began:.0f} s")
            reported = line
        if time.monotonic() > deadline:
            raise RefusedError(f"{_line(task)}: not done in time. The task continues. Fix: rerun the command to resume")
        time.sleep(_POLL_SECONDS)
        [task] = fsx.describe_data_repository_tasks(TaskIds=[task["TaskId"]])["DataRepositoryTasks"]
    say(f"{_line(task)}, {time.monotonic() - began:.0f} s")
    if task["Lifecycle"] != "SUCCEEDED":
        reason = (task.get("FailureDetails") or {}).get("Message") or f"it was {task['Lifecycle'].lower()}"
        raise TaskFailedError(
            f"{_name(task)} failed: {reason.rstrip('.')}{_failures(s3, task)}. Fix: correct it, then rerun"
        )


def as_data(task: Task) -> dict[str, Any]:
    """Return a task as data for programs."""
    counts = task.get("Status") or {}
    return {
        "task": task["TaskId"],
        "type": WORDS.get(task["Type"], task["Type"]),
        "state": task["Lifecycle"],
        "paths": list(task.get("Paths") or []),
        "files": counts.get("TotalCount", 0),
        "done": counts.get("SucceededCount", 0),
        "failed": counts.get("FailedCount", 0),
        "created": task["CreationTime"].isoformat(),
    }


def _create(fsx: Any, place: LinkedPath, kind: str, path: str) -> Task:
    report = {
        "Enabled": True,
        "Path": "/".join(filter(None, (place.link.objects.rstrip("/"), REPORTS))),
        "Format": "REPORT_CSV_20191124",
        "Scope": "FAILED_FILES_ONLY",
    }
    try:
        made: Task = fsx.create_data_repository_task(
            FileSystemId=place.link.file_system, Type=kind, Paths=[path], Report=report
        )["DataRepositoryTask"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "DataRepositoryTaskExecuting":
            raise
        raise RefusedError(
            f"file system {place.link.file_system} runs another data repository task. "
            "Fix: wait until `ops data ls` lists none, then rerun the command"
        ) from error
    return made


def _name(task: Task) -> str:
    return f"{WORDS.get(task['Type'], task['Type'])} {task['TaskId']}"


def _line(task: Task) -> str:
    data = as_data(task)
    return f"{_name(task)}: {data['state']}, {data['done']} of {data['files']} files, {data['failed']} failed"


def _failures(s3: Any, task: Task) -> str:
    """Return the first failed files of the task's report, for an error message; empty if there is no report."""
    bucket, _, prefix = str(task["Report"].get("Path", "")).removeprefix("s3://").partition("/")
    name = "report.csv" if task["Type"] == IMPORT else "failures.csv"
    key = "/".join(filter(None, (prefix, task["TaskId"], name)))
    try:
        text = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode(errors="replace")
    except ClientError:
        return ""
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) == 3]
    shown = "; ".join(f"{path}: {code}" for path, _, code in rows[:_SHOWN_FAILURES])
    return f" ({shown}; all {len(rows)} are in s3://{bucket}/{key})" if rows else ""
