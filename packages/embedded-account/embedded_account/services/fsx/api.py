"""The API routes of the simulated FSx, and CloudFormation's models of its resources."""

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from moto.fsx.responses import FSxResponse

from embedded_account.context import Account
from embedded_account.errors import code_of
from embedded_account.services.fsx.service import FsxService
from embedded_account.services.fsx.tasks import DataRepositoryTasks
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve


def install(account: Account) -> None:
    """Replace moto's FSx, which implements neither life cycles nor associations, with the simulation."""
    serve(account)
    service = FsxService(account)
    account.at_end.callback(service.close)
    for operation, answer in (_operations(service) | _task_operations(DataRepositoryTasks(account, service))).items():
        setattr(FSxResponse, operation, _route(answer))


Request = dict[str, Any]
Answer = Callable[[Request], Request]


def _operations(service: FsxService) -> dict[str, Answer]:
    def file_systems(request: Request) -> Request:
        return _page("FileSystems", service.describe_file_systems(request.get("FileSystemIds") or []), request)

    def associations(request: Request) -> Request:
        found = service.describe_associations(request.get("AssociationIds") or [], request.get("Filters") or [])
        return _page("Associations", found, request)

    return {
        "create_file_system": lambda request: {"FileSystem": service.create_file_system(request)},
        "describe_file_systems": file_systems,
        "update_file_system": lambda request: {"FileSystem": service.update_file_system(request)},
        "delete_file_system": lambda request: service.delete_file_system(request["FileSystemId"]),
        "create_data_repository_association": lambda request: {"Association": service.create_association(request)},
        "describe_data_repository_associations": associations,
        "update_data_repository_association": lambda request: {"Association": service.update_association(request)},
        "delete_data_repository_association": service.delete_association,
    }


def _task_operations(tasks: DataRepositoryTasks) -> dict[str, Answer]:
    def described(request: Request) -> Request:
        return _page(
            "DataRepositoryTasks", tasks.describe(request.get("TaskIds") or [], request.get("Filters") or []), request
        )

    return {
        "create_data_repository_task": lambda request: {"DataRepositoryTask": tasks.create(request)},
        "describe_data_repository_tasks": described,
        "cancel_data_repository_task": lambda request: tasks.cancel(request["TaskId"]),
    }


def _route(answer: Answer) -> Callable[[FSxResponse], str]:
    def respond(response: FSxResponse) -> str:
        return json.dumps(answer(json.loads(response.body)))

    return respond


def _page(name: str, found: list[Request], request: Request) -> Request:
    """Return one page of a list; the token is the index of the next page's first element."""
    start = int(request.get("NextToken") or 0)
    end = start + int(request.get("MaxResults") or len(found))
    return {name: found[start:end], **({"NextToken": str(end)} if end < len(found) else {})}


class _FsxModel(ApiModel):
    """An FSx resource whose creation and deletion take time."""

    SERVICE = "fsx"

    def describe(self) -> Properties:
        """Return the resource as FSx describes it."""
        raise NotImplementedError

    def is_created(self) -> bool:
        """Return whether the resource is AVAILABLE. Raises ResourceError if its creation failed."""
        found = self.describe()
        if found["Lifecycle"] in ("FAILED", "MISCONFIGURED"):
            self.refuse(f"{self.physical_resource_id}: {found['FailureDetails']['Message']}")
        return bool(found["Lifecycle"] == "AVAILABLE")

    def is_deleted(self) -> bool:
        """Return whether FSx no longer lists the resource."""
        try:
            self.describe()
        except ClientError as error:
            if "NotFound" in (code_of(error) or ""):
                return True
            raise
        return False

    def retag(self, arn: str, old: Properties) -> None:
        """Change the tags from those in `old` to those in the current properties."""
        before = {tag["Key"] for tag in old.get("Tags", [])}
        after = self.properties.get("Tags", [])
        if gone := before - {tag["Key"] for tag in after}:
            self.api.untag_resource(ResourceARN=arn, TagKeys=sorted(gone))
        if after:
            self.api.tag_resource(ResourceARN=arn, Tags=after)


@cloudformation_model("AWS::FSx::FileSystem")
class FileSystem(_FsxModel):
    """A Lustre file system. The capacity and some settings can change in place; FSx refuses to reduce the capacity."""

    MUTABLE = frozenset({"LustreConfiguration", "StorageCapacity", "Tags"})
    KNOWN = MUTABLE | {
        "FileSystemType",
        "FileSystemTypeVersion",
        "KmsKeyId",
        "SecurityGroupIds",
        "StorageType",
        "SubnetIds",
    }

    def make(self) -> str:
        return str(self.api.create_file_system(**self.properties)["FileSystem"]["FileSystemId"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        before, after = old.get("LustreConfiguration", {}), self.properties.get("LustreConfiguration", {})
        if gone := (before.keys() - after.keys()) | ({"StorageCapacity"} & old.keys() - self.properties.keys()):
            self.refuse(f"the embedded account cannot reset {', '.join(sorted(gone))} to its default")
        given = self.only(*changed & {"StorageCapacity"})
        if lustre := {name: value for name, value in after.items() if before.get(name) != value}:
            given["LustreConfiguration"] = lustre
        if given:
            self.api.update_file_system(FileSystemId=self.physical_resource_id, **given)
        if "Tags" in changed:
            self.retag(self.describe()["ResourceARN"], old)

    def unmake(self) -> None:
        self.api.delete_file_system(FileSystemId=self.physical_resource_id)

    def describe(self) -> Properties:
        found: Properties = self.api.describe_file_systems(FileSystemIds=[self.physical_resource_id])
        only: Properties = found["FileSystems"][0]
        return only

    def attributes(self) -> dict[str, Any]:
        found = self.describe()
        return {
            "Id": self.physical_resource_id,
            "DNSName": found["DNSName"],
            "LustreMountName": found["LustreConfiguration"]["MountName"],
            "ResourceARN": found["ResourceARN"],
        }


@cloudformation_model("AWS::FSx::DataRepositoryAssociation")
class DataRepositoryAssociation(_FsxModel):
    """The link between a directory of a file system and a prefix of a bucket."""

    MUTABLE = frozenset({"ImportedFileChunkSize", "S3", "Tags"})
    KNOWN = MUTABLE | {"BatchImportMetaDataOnCreate", "DataRepositoryPath", "FileSystemId", "FileSystemPath"}

    def make(self) -> str:
        response = self.api.create_data_repository_association(**self.properties)
        return str(response["Association"]["AssociationId"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        settings = changed & {"ImportedFileChunkSize", "S3"}
        if gone := settings - self.properties.keys():
            self.refuse(f"the embedded account cannot reset {', '.join(sorted(gone))} to its default")
        if given := self.only(*settings):
            self.api.update_data_repository_association(AssociationId=self.physical_resource_id, **given)
        if "Tags" in changed:
            self.retag(self.describe()["ResourceARN"], old)

    def unmake(self) -> None:
        self.api.delete_data_repository_association(AssociationId=self.physical_resource_id)

    def describe(self) -> Properties:
        wanted = [self.physical_resource_id]
        found: Properties = self.api.describe_data_repository_associations(AssociationIds=wanted)
        only: Properties = found["Associations"][0]
        return only

    def attributes(self) -> dict[str, Any]:
        return {"AssociationId": self.physical_resource_id, "ResourceARN": self.describe()["ResourceARN"]}
