"""Simulate FSx's data repository tasks: imports of metadata from a bucket, and exports to it.

A task ends in simulated time; only then the bucket or the file system changes. A file system runs one task at a time
(DataRepositoryTaskExecuting in the API reference: wait until the existing task has completed).
"""

import csv
import io
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from moto.utilities.utils import get_partition

from embedded_account.context import Account
from embedded_account.services.fsx import rules
from embedded_account.services.fsx.contents import (
    BucketObjects,
    Files,
    LinkedDirectory,
    TaskFile,
    carry_out,
    exported,
    imported,
)
from embedded_account.services.fsx.service import FsxService, same_token

START: Final = timedelta(minutes=1)
WORK: Final = timedelta(minutes=2)
"""The simulated durations in PENDING and EXECUTING, for any number of files."""
ACTIVE: Final = ("PENDING", "EXECUTING", "CANCELING")

Fields = Mapping[str, Any]


@dataclass
class Task:
    """A task: the API's fields, when it starts and ends, and its work, listed when it starts."""

    fields: dict[str, Any]
    request: dict[str, Any]
    starts_at: datetime
    ends_at: datetime
    items: list[TaskFile] = field(default_factory=list)
    canceling: bool = False

    @property
    def resource_arn(self) -> str:
        """The name of the resource in moto's tagging: its ARN."""
        return str(self.fields["ResourceARN"])


class DataRepositoryTasks:
    """The tasks of one account's file systems."""

    def __init__(self, account: Account, service: FsxService) -> None:
        self._account = account
        self._service = service

    def create(self, request: Fields) -> dict[str, Any]:
        """Carry out a CreateDataRepositoryTask request."""
        with self._service.lock:
            if existing := same_token(self._tasks, request):
                return self._shown(existing)
            rules.check_task(request)
            identifier = request["FileSystemId"]
            self._service.available(identifier)
            links = self._links(identifier)
            rules.check_task_links(request, [f"s3://{each.bucket}/{each.prefix}" for each in links])
            if request["Type"] == rules.EXPORT and any(each.exports for each in links):
                raise rules.bad_request(
                    "Automatic export and export data repository tasks cannot run at the same time."
                )
            if active := self._active(identifier):
                raise rules.fsx_error(
                    "DataRepositoryTaskExecuting",
                    f"Data repository task {active.fields['TaskId']} is currently executing on {identifier}.",
                )
            task = self._new(request)
            self._service.keep(self._tasks, task.fields["TaskId"], task)
            self._service.later(START, lambda: self._start(task))
            return self._shown(task)

    def describe(self, identifiers: list[str], filters: list[Fields]) -> list[dict[str, Any]]:
        """Return the tasks that DescribeDataRepositoryTasks shows, the newest first."""
        with self._service.lock:
            found = [self._shown(self._task(each)) for each in identifiers or list(self._tasks)]
        for each in filters:
            member = {"file-system-id": "FileSystemId", "task-lifecycle": "Lifecycle"}.get(each["Name"])
            if member is None:
                raise rules.bad_request(f"The embedded account does not implement the filter {each['Name']}.")
            found = [one for one in found if one[member] in each["Values"]]
        return sorted(found, key=lambda one: float(one["CreationTime"]), reverse=True)

    def cancel(self, identifier: str) -> dict[str, Any]:
        """Carry out a CancelDataRepositoryTask request: nothing more is imported or exported."""
        with self._service.lock:
            task = self._task(identifier)
            if task.fields["Lifecycle"] not in ACTIVE:
                raise rules.fsx_error(
                    "DataRepositoryTaskEnded", f"Data repository task {identifier} has already ended."
                )
            task.canceling, task.fields["Lifecycle"] = True, "CANCELING"
        return {"TaskId": identifier, "Lifecycle": "CANCELING"}

    def write(self, file_system: str, path: str, content: bytes) -> None:
        """Write a file as a program on the file system would; automatic export sends it to the bucket at once."""
        with self._service.lock:
            files = self._service.files(file_system)
            files[path] = content
            link = next((each for each in self._links(file_system) if each.holds(path)), None)
            if link and link.exports:
                carry_out(self._account, files, [TaskFile(path, link, None)], export=True)

    def files(self, file_system: str) -> set[str]:
        """Return the paths of the files that tasks brought to the file system, and that programs wrote."""
        return set(self._service.files(file_system))

    # ------------------------------------------------ within

    @property
    def _tasks(self) -> dict[str, Any]:
        return self._service.tasks

    def _task(self, identifier: str) -> Task:
        if identifier not in self._tasks:
            raise rules.fsx_error("DataRepositoryTaskNotFound", f"Data repository task '{identifier}' does not exist.")
        task: Task = self._tasks[identifier]
        return task

    def _active(self, file_system: str) -> Task | None:
        of_it = (task for task in self._tasks.values() if task.fields["FileSystemId"] == file_system)
        return next((task for task in of_it if task.fields["Lifecycle"] in ACTIVE), None)

    def _links(self, file_system: str) -> list[LinkedDirectory]:
        """Return the links of the file system's associations that are AVAILABLE."""
        filters: list[Fields] = [{"Name": "file-system-id", "Values": [file_system]}]
        found = self._service.describe_associations([], filters)
        return [LinkedDirectory.of(each) for each in found if each["Lifecycle"] == "AVAILABLE"]

    def _new(self, request: Fields) -> Task:
        identifier, now = f"task-0{secrets.token_hex(8)}", self._account.clock.now()
        region, account_id = self._account.region, self._account.account_id
        file_system = request["FileSystemId"]
        fields = {
            "TaskId": identifier,
            "Lifecycle": "PENDING",
            "Type": request["Type"],
            "CreationTime": now.timestamp(),
            "ResourceARN": f"arn:{get_partition(region)}:fsx:{region}:{account_id}:task/{file_system}/{identifier}",
            "FileSystemId": file_system,
            "Paths": list(request.get("Paths") or []),
            "Report": dict(request["Report"]),
        }
        return Task(fields, dict(request), self._service.at(START), self._service.at(START + WORK))

    def _start(self, task: Task) -> None:
        with self._service.lock:
            if task.canceling:
                self._end(task, "CANCELED")
                return
            task.fields |= {"Lifecycle": "EXECUTING", "StartTime": self._account.clock.now().timestamp()}
            items = self._work(task)
            if isinstance(items, str):
                self._end(task, "FAILED", items)
            else:
                task.items = items
                self._service.later(WORK, lambda: self._finish(task))

    def _finish(self, task: Task) -> None:
        with self._service.lock:
            if task.canceling:
                self._end(task, "CANCELED")
            else:
                export = task.fields["Type"] == rules.EXPORT
                task.items = carry_out(self._account, self._files(task), task.items, export=export)
                failed = [item for item in task.items if item.failure]
                self._report(task, failed)
                message = f"The task failed to process {len(failed)} of {len(task.items)} files." if failed else None
                self._end(task, "FAILED" if failed else "SUCCEEDED", message)

    def _work(self, task: Task) -> list[TaskFile] | str:
        links, paths = self._links(task.fields["FileSystemId"]), task.fields["Paths"]
        if missing := [each.bucket for each in links if not BucketObjects(self._account, each.bucket).exists]:
            return f"Amazon FSx is unable to access the S3 bucket {missing[0]}."
        if task.fields["Type"] == rules.IMPORT:
            everything = [f"s3://{each.bucket}/{each.prefix}" for each in links]
            return imported(self._account, links, paths or everything)
        everything = [each.path.lstrip("/") for each in links]
        return exported(self._account, self._files(task), links, paths or everything)

    def _files(self, task: Task) -> Files:
        return self._service.files(task.fields["FileSystemId"])

    def _end(self, task: Task, lifecycle: str, message: str | None = None) -> None:
        task.fields |= {"Lifecycle": lifecycle, "EndTime": self._account.clock.now().timestamp()}
        if message:
            task.fields["FailureDetails"] = {"Message": message}

    def _report(self, task: Task, failed: list[TaskFile]) -> None:
        """Write the report of failed files where the task's request wants it."""
        report = task.fields["Report"]
        if not report["Enabled"] or not failed:
            return
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [item.path.lstrip("/"), "failed", item.failure] for item in failed
        )
        bucket, _, prefix = report["Path"].removeprefix("s3://").partition("/")
        name = "report.csv" if task.fields["Type"] == rules.IMPORT else "failures.csv"
        key = "/".join(filter(None, (prefix.strip("/"), task.fields["TaskId"], name)))
        if (target := BucketObjects(self._account, bucket)).exists:
            target.put(key, text.getvalue().encode())

    def _shown(self, task: Task) -> dict[str, Any]:
        lifecycle, total = task.fields["Lifecycle"], len(task.items)
        if lifecycle in ("SUCCEEDED", "FAILED"):
            failed = sum(1 for item in task.items if item.failure)
            done = total - failed
        else:
            span = (task.ends_at - task.starts_at).total_seconds()
            passed = (self._account.clock.now() - task.starts_at).total_seconds()
            done, failed = int(total * min(max(passed / span, 0.0), 1.0)), 0
        updated = task.fields.get("EndTime") or self._account.clock.now().timestamp()
        counts = {"TotalCount": total, "SucceededCount": done, "FailedCount": failed, "LastUpdatedTime": updated}
        return {**task.fields, "Status": counts, "Tags": self._service.tags(task.resource_arn)}
