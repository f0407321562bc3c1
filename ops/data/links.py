"""Find the data repository associations of the environment's file system, and the place of a path in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from config import Environment, naming
from ops import stacks
from ops.data.errors import BadPathError
from ops.errors import RefusedError

_BOTH = {"NEW", "CHANGED"}


@dataclass(frozen=True)
class DataLink:
    """A data repository association: `path` of the file system mirrors `prefix` of the bucket.

    `seen_at` is the path that Ray's pods see; `imports` and `exports` tell whether FSx mirrors new and changed files
    by itself.
    """

    file_system: str
    path: PurePosixPath
    seen_at: PurePosixPath
    bucket: str
    prefix: str
    imports: bool
    exports: bool
    state: str

    @property
    def objects(self) -> str:
        """The S3 address of the objects."""
        return f"s3://{self.bucket}/{self.prefix}"


@dataclass(frozen=True)
class LinkedPath:
    """A path in a link: on the file system as FSx knows it, as Ray's pods see it, and as a key of the bucket."""

    link: DataLink
    path: PurePosixPath
    seen_at: PurePosixPath
    key: str

    @property
    def address(self) -> str:
        """The S3 address of the key."""
        return f"s3://{self.link.bucket}/{self.key}"


def find(environment: Environment, cloudformation: Any, fsx: Any) -> list[DataLink]:
    """Return the links of the environment's file system. Raises RefusedError if there is none, and ClientError."""
    settings = environment.fsx
    if settings.dynamic:
        raise RefusedError(
            f"environment {environment.name} has no link to its bucket: the CSI driver creates its file system "
            "without one. Fix: use fsx.provisioning: static with fsx.data_repositories"
        )
    if settings.owned and not settings.data_repositories:
        raise RefusedError(
            f"environment {environment.name} links no path of its file system to its bucket. "
            "Fix: add fsx.data_repositories, then deploy the storage stack"
        )
    file_system = settings.existing.id if settings.existing else _own_file_system(environment, cloudformation)
    found = _associations(fsx, file_system)
    if not found:
        fix = "ask its owner for one" if settings.existing else "deploy the storage stack"
        raise RefusedError(f"file system {file_system} has no data repository association. Fix: {fix}")
    return [_link(each, PurePosixPath(settings.mount_path)) for each in found]


def locate(links: Sequence[DataLink], path: str) -> LinkedPath:
    """Return the place of a path that Ray's pods see. Raises BadPathError unless it is in a link that can be used."""
    wanted = PurePosixPath(path)
    allowed = ", ".join(sorted(str(link.seen_at) for link in links))
    if not wanted.is_absolute() or ".." in wanted.parts:
        raise BadPathError(f"{path} is invalid: it must be absolute, without `..`. Allowed: {allowed}, and below")
    for link in links:
        if wanted.is_relative_to(link.seen_at):
            if link.state != "AVAILABLE":
                raise BadPathError(
                    f"{link.seen_at} cannot be used: its association is {link.state}. Fix: see `ops data ls`"
                )
            inside = wanted.relative_to(link.seen_at)
            key = "/".join(filter(None, (link.prefix, *inside.parts)))
            return LinkedPath(link, link.path / inside, wanted, key)
    raise BadPathError(f"{path} is invalid: no data repository is linked there. Allowed: {allowed}, and below")


def _own_file_system(environment: Environment, cloudformation: Any) -> str:
    """Return the id of the storage stack's file system. Raises RefusedError if there is no stack."""
    stack = stacks.find(cloudformation, environment, "storage")
    for each in stacks.resources(cloudformation, stack) if stack else ():
        if each["ResourceType"] == "AWS::FSx::FileSystem" and each.get("PhysicalResourceId"):
            return str(each["PhysicalResourceId"])
    raise RefusedError(f"stack {naming.stack(environment, 'storage')} has no file system yet. Fix: deploy it")


def _associations(fsx: Any, file_system: str) -> list[Mapping[str, Any]]:
    request: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [file_system]}]}
    found: list[Mapping[str, Any]] = []
    while True:
        page = fsx.describe_data_repository_associations(**request)
        found += page["Associations"]
        if "NextToken" not in page:
            return found
        request["NextToken"] = page["NextToken"]


def _link(association: Mapping[str, Any], mount: PurePosixPath) -> DataLink:
    bucket, _, prefix = association["DataRepositoryPath"].removeprefix("s3://").partition("/")
    path = PurePosixPath(association["FileSystemPath"])
    return DataLink(
        file_system=association["FileSystemId"],
        path=path,
        seen_at=mount / path.relative_to("/"),
        bucket=bucket,
        prefix=prefix.strip("/"),
        imports=_automatic(association, "AutoImportPolicy"),
        exports=_automatic(association, "AutoExportPolicy"),
        state=association["Lifecycle"],
    )


def _automatic(association: Mapping[str, Any], policy: str) -> bool:
    events = ((association.get("S3") or {}).get(policy) or {}).get("Events") or ()
    return set(events) >= _BOTH
