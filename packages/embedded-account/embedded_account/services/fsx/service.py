"""Simulate the operations of the FSx for Lustre API, with life cycles in simulated time.

The API's answers and the network resources of a file system are simulated; no file system can be mounted.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import fsx_backends

from embedded_account.context import Account
from embedded_account.services.fsx import rules
from embedded_account.services.fsx.records import FileSystemNames, FsxRecord, grow, new_association, new_file_system
from embedded_account.services.keys import CREATE_GRANT, unusable

CREATION = timedelta(minutes=10)
CHANGE = timedelta(minutes=2)
DELETION = timedelta(minutes=3)
ASSOCIATION = timedelta(minutes=2)
"""The simulated durations: about the time that AWS needs for a small file system."""

KEY_ACTIONS = (CREATE_GRANT, "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
"""What FSx does with the key of a new file system, with the rights of its caller.

Source: FSx for Lustre user guide, "Amazon FSx key policies for AWS KMS".
"""
DEFAULT_LOG_GROUP = "/aws/fsx/lustre"

Fields = Mapping[str, Any]


class FsxService:
    """The FSx of one account. Its state is in moto's backend, so that moto's tagging and resets apply to it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.lock = threading.RLock()
        self._timers: set[threading.Timer] = set()

    def close(self) -> None:
        """Cancel the deletions in progress."""
        for timer in list(self._timers):
            timer.cancel()

    @property
    def _backend(self) -> Any:
        return fsx_backends[self._account.account_id][self._account.region]

    @property
    def file_systems(self) -> dict[str, FsxRecord]:
        """The file systems by id."""
        found: dict[str, FsxRecord] = self._backend.file_systems
        return found

    @property
    def associations(self) -> dict[str, FsxRecord]:
        """The data repository associations by id."""
        found: dict[str, FsxRecord] = self._backend.__dict__.setdefault("associations", {})
        return found

    @property
    def tasks(self) -> dict[str, Any]:
        """The data repository tasks by id."""
        found: dict[str, Any] = self._backend.__dict__.setdefault("tasks", {})
        return found

    def files(self, file_system: str) -> dict[str, bytes | None]:
        """Return the simulated contents of a file system (`embedded_account.services.fsx.contents`)."""
        found: dict[str, dict[str, bytes | None]] = self._backend.__dict__.setdefault("files", {})
        return found.setdefault(file_system, {})

    def tags(self, arn: str) -> list[dict[str, str]]:
        """Return the tags of a resource."""
        found: list[dict[str, str]] = self._backend.list_tags_for_resource(arn)
        return found

    # ------------------------------------------------ file systems

    def create_file_system(self, request: Fields, identity: FileSystemNames | None = None) -> dict[str, Any]:
        """Carry out a CreateFileSystem request; repeating it with its ClientRequestToken returns the same file system.

        `identity` is for a file system that exists before the environment: it has a given id, and is AVAILABLE.
        """
        with self.lock:
            if existing := same_token(self.file_systems, request):
                return self._shown(existing)
            rules.check_file_system(request)
            self._check_key(request.get("KmsKeyId"))
            ready_at = self.at(CREATION) if identity is None else self._account.clock.now()
            record = new_file_system(self._account, request, ready_at, identity or FileSystemNames())
            self.keep(self.file_systems, record.fields["FileSystemId"], record)
            logs = record.fields["LustreConfiguration"].get("LogConfiguration") or {}
            if logs.get("Level", "DISABLED") != "DISABLED" and "Destination" not in logs:
                self._account.background.log_group(maker_arn=record.resource_arn, name=DEFAULT_LOG_GROUP)
            return self._shown(record)

    def _check_key(self, key: str | None) -> None:
        where = self._account.account_id, self._account.region
        if key and (why := unusable(*where, key, *KEY_ACTIONS, via="fsx")):
            raise rules.bad_request(f"The KMS key {key} {why}.")

    def describe_file_systems(self, identifiers: list[str]) -> list[dict[str, Any]]:
        """Return the file systems as DescribeFileSystems shows them; no identifiers means all."""
        with self.lock:
            return [self._shown(self._file_system(each)) for each in identifiers or list(self.file_systems)]

    def update_file_system(self, request: Fields) -> dict[str, Any]:
        """Carry out an UpdateFileSystem request: more capacity, and the Lustre settings that can change."""
        known = {"FileSystemId", "ClientRequestToken", "LustreConfiguration", "StorageCapacity"}
        if unknown := request.keys() - known:
            names = ", ".join(sorted(unknown))
            raise rules.fsx_error("UnsupportedOperation", f"The embedded account does not change {names}.")
        with self.lock:
            record = self.available(request["FileSystemId"])
            lustre = dict(request.get("LustreConfiguration") or {})
            capacity = request.get("StorageCapacity")
            rules.check_update(lustre)
            if capacity is not None:
                rules.check_growth(record.fields["StorageCapacity"], capacity)
                grow(self._account, record, capacity)
            record.fields["LustreConfiguration"].update(lustre)
            record.ready_at = self.at(CHANGE)
            return self._shown(record)

    def delete_file_system(self, identifier: str) -> dict[str, Any]:
        """Carry out a DeleteFileSystem request; its end also deletes the interfaces and associations."""
        with self.lock:
            record = self._file_system(identifier)
            if record.deleting:
                raise rules.bad_request(f"File system {identifier} is already being deleted.")
            of_it = [task.fields for task in self.tasks.values() if task.fields["FileSystemId"] == identifier]
            if any(each["Lifecycle"] in ("PENDING", "EXECUTING") for each in of_it):
                raise rules.bad_request(f"File system {identifier} has data repository tasks that have not ended.")
            self._start_deletion(record, lambda: self._finish_deletion(identifier))
        return {"FileSystemId": identifier, "Lifecycle": "DELETING"}

    # ------------------------------------------------ data repository associations

    def create_association(self, request: Fields) -> dict[str, Any]:
        """Carry out a CreateDataRepositoryAssociation request; a file system processes its requests in order."""
        with self.lock:
            if existing := same_token(self.associations, request):
                return self._shown(existing)
            file_system = self.available(request["FileSystemId"])
            if file_system.fields["LustreConfiguration"]["AutomaticBackupRetentionDays"] > 0:
                raise rules.bad_request("A file system with automatic backups cannot be linked to a data repository.")
            others = self._associations_of(request["FileSystemId"])
            rules.check_association(request, [other.fields for other in others])
            started = max([self._account.clock.now(), *(other.ready_at for other in others)])
            record = new_association(self._account, request, started + self._real(ASSOCIATION))
            self.keep(self.associations, record.fields["AssociationId"], record)
            return self._shown(record)

    def describe_associations(self, identifiers: list[str], filters: list[Fields]) -> list[dict[str, Any]]:
        """Return the associations that DescribeDataRepositoryAssociations shows, by id or by file system."""
        with self.lock:
            found = [self._shown(self._association(each)) for each in identifiers or list(self.associations)]
        for each in filters:
            if each["Name"] != "file-system-id":
                raise rules.bad_request(f"The embedded account does not implement the filter {each['Name']}.")
            found = [one for one in found if one["FileSystemId"] in each["Values"]]
        return found

    def update_association(self, request: Fields) -> dict[str, Any]:
        """Carry out an UpdateDataRepositoryAssociation request: the policies and the chunk size."""
        with self.lock:
            record = self._association(request["AssociationId"])
            rules.check_association_settings(request)
            changed = {name: request[name] for name in ("S3", "ImportedFileChunkSize") if name in request}
            record.fields.update(changed)
            record.ready_at = self.at(CHANGE)
            return self._shown(record)

    def delete_association(self, request: Fields) -> dict[str, Any]:
        """Carry out a DeleteDataRepositoryAssociation request."""
        identifier = request["AssociationId"]
        with self.lock:
            record = self._association(identifier)
            self._start_deletion(record, lambda: self.associations.pop(identifier, None))
        return {
            "AssociationId": identifier,
            "Lifecycle": "DELETING",
            "DeleteDataInFileSystem": bool(request.get("DeleteDataInFileSystem")),
        }

    # ------------------------------------------------ within

    def _real(self, simulated: timedelta) -> timedelta:
        return simulated / self._account.clock.scale

    def at(self, simulated: timedelta) -> datetime:
        """Return when this simulated time from now is over."""
        return self._account.clock.now() + self._real(simulated)

    def keep(self, records: dict[str, Any], identifier: str, record: Any) -> None:
        """Add a record of `request` and `resource_arn`, with the request's tags."""
        records[identifier] = record
        self._backend.tagger.tag_resource(record.resource_arn, list(record.request.get("Tags") or []))

    def later(self, simulated: timedelta, act: Callable[[], object]) -> None:
        """Act after this simulated time, unless the account ends before."""

        def finish() -> None:
            self._timers.discard(timer)
            act()

        timer = threading.Timer(self._real(simulated).total_seconds(), finish)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def _start_deletion(self, record: FsxRecord, end: Callable[[], object]) -> None:
        record.deleting = True
        self.later(DELETION, end)

    def _finish_deletion(self, identifier: str) -> None:
        with self.lock:
            record = self.file_systems.pop(identifier, None)
            self.files(identifier).clear()
            for association in self._associations_of(identifier):
                self.associations.pop(association.fields["AssociationId"], None)
            for interface in record.interfaces if record else []:
                self._account.background.drop(interface)

    def _file_system(self, identifier: str) -> FsxRecord:
        if identifier not in self.file_systems:
            raise FileSystemNotFound(identifier)
        return self.file_systems[identifier]

    def available(self, identifier: str) -> FsxRecord:
        """Return the file system. Raises FSx's error unless it is AVAILABLE."""
        record = self._file_system(identifier)
        lifecycle = self._lifecycle(record)
        if lifecycle != "AVAILABLE":
            raise rules.bad_request(f"File system {identifier} is {lifecycle}: it must be AVAILABLE.")
        return record

    def _association(self, identifier: str) -> FsxRecord:
        if identifier not in self.associations:
            raise rules.fsx_error(
                "DataRepositoryAssociationNotFound", f"Data repository association '{identifier}' does not exist."
            )
        return self.associations[identifier]

    def _associations_of(self, file_system_id: str) -> list[FsxRecord]:
        return [one for one in self.associations.values() if one.fields["FileSystemId"] == file_system_id]

    def _lifecycle(self, record: FsxRecord) -> str:
        if record.deleting:
            return "DELETING"
        if self._account.clock.now() < record.ready_at:
            return "UPDATING" if record.created else "CREATING"
        record.created = True
        return "FAILED" if record.failure else "AVAILABLE"

    def _shown(self, record: FsxRecord) -> dict[str, Any]:
        lifecycle = self._lifecycle(record)
        failed = {"FailureDetails": {"Message": record.failure}} if lifecycle == "FAILED" else {}
        return {**record.fields, "Lifecycle": lifecycle, "Tags": self.tags(record.resource_arn), **failed}


def same_token(records: Mapping[str, Any], request: Fields) -> Any | None:
    """Return the record that a request with the same ClientRequestToken made. Raises FSx's error if they differ."""
    token = request.get("ClientRequestToken")
    for record in records.values():
        if token and record.request.get("ClientRequestToken") == token:
            if record.request != request:
                raise rules.fsx_error(
                    "IncompatibleParameterError", "A request with this ClientRequestToken had other parameters."
                )
            return record
    return None
