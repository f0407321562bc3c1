"""SageMaker's managed MLflow: the calls on tracking servers, and CloudFormation's model of one.

Simulated: the life cycle, in simulated minutes. No MLflow runs, and nothing answers at a tracking server's address.
Source: SageMaker API reference, CreateMlflowTrackingServer and its neighbours.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores
from moto.sagemaker.models import sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from embedded_account.errors import code_of
from embedded_account.hyperpod.api.validation import validate
from embedded_account.hyperpod.errors import AlreadyInUseError, ConflictError, NotFoundError, ValidationFailedError
from embedded_account.services.iam.access import trusts
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve

if TYPE_CHECKING:
    from embedded_account.context import Account

Request = Mapping[str, Any]
Answer = dict[str, Any]

CREATION: Final = timedelta(minutes=25)
CHANGE: Final = timedelta(minutes=5)
DELETION: Final = timedelta(minutes=10)

_IN_PLACE: Final = frozenset(
    {"ArtifactStoreUri", "AutomaticModelRegistration", "TrackingServerSize", "WeeklyMaintenanceWindowStart"}
)


def install(account: "Account") -> None:
    """Answer the calls on tracking servers, which moto lacks; a call that is not listed here is refused."""
    serve(account)
    service = TrackingServers(account)
    for operation, answer in (
        ("CreateMlflowTrackingServer", service.create),
        ("DescribeMlflowTrackingServer", service.describe),
        ("UpdateMlflowTrackingServer", service.update),
        ("DeleteMlflowTrackingServer", service.delete),
        ("ListMlflowTrackingServers", service.list),
    ):
        setattr(SageMakerResponse, camelcase_to_underscores(operation), _route(operation, answer))


def _route(operation: str, answer: Callable[[Request], Answer]) -> Callable[[Any], ActionResult]:
    def respond(response: Any) -> ActionResult:
        request = json.loads(response.body or "{}")
        validate(operation, request)
        return ActionResult(answer(request))

    return respond


class TrackingServers:
    """The tracking servers of one account. Their records are in moto's backend and end with it."""

    def __init__(self, account: "Account") -> None:
        self._account = account

    @property
    def records(self) -> dict[str, Answer]:
        """The servers by name, without those whose deletion is over."""
        self.forget_deleted()
        return self._found

    def forget_deleted(self) -> None:
        """Forget the servers whose deletion is over."""
        for name in [name for name, record in self._found.items() if record["deleting"] and self._is_over(record)]:
            del self._found[name]

    @property
    def _found(self) -> dict[str, Answer]:
        backend = sagemaker_backends[self._account.account_id][self._account.region]
        found: dict[str, Answer] = backend.__dict__.setdefault("tracking_servers", {})
        return found

    def create(self, request: Request) -> Answer:
        """Create a server. Raises SageMaker's errors for a taken name and for a role that SageMaker cannot assume."""
        name, account = request["TrackingServerName"], self._account
        _only(request, {*_IN_PLACE, "TrackingServerName", "RoleArn", "MlflowVersion", "Tags"})
        if name in self.records:
            raise AlreadyInUseError(f"Tracking server {name} already exists")
        if not trusts(account, request["RoleArn"], "sagemaker.amazonaws.com"):
            raise ValidationFailedError(f"Could not assume role {request['RoleArn']}.")
        arn = f"arn:aws:sagemaker:{account.region}:{account.account_id}:mlflow-tracking-server/{name}"
        fields = {"TrackingServerSize": "Small", "AutomaticModelRegistration": False, **request}
        over, status = account.clock.after(CREATION), ("Creating", "Created")
        self.records[name] = {"arn": arn, "fields": fields, "deleting": False, "over": over, "status": status}
        return {"TrackingServerArn": arn}

    def describe(self, request: Request) -> Answer:
        """Return a server as SageMaker describes it."""
        record = self.record(request["TrackingServerName"])
        status = record["status"][self._is_over(record)]
        fields = {name: value for name, value in record["fields"].items() if name != "Tags"}
        return {"TrackingServerArn": record["arn"], **fields, "TrackingServerStatus": status}

    def update(self, request: Request) -> Answer:
        """Change a server that no other change is at work on."""
        _only(request, {*_IN_PLACE, "TrackingServerName"})
        record = self._settled(request)
        record["fields"].update(request)
        record.update(status=("Updating", "Updated"), over=self._account.clock.after(CHANGE))
        return {"TrackingServerArn": record["arn"]}

    def delete(self, request: Request) -> Answer:
        """Delete a server with its runs; the artifacts stay in their bucket."""
        record = self._settled(request)
        record.update(deleting=True, status=("Deleting", "Deleting"), over=self._account.clock.after(DELETION))
        return {"TrackingServerArn": record["arn"]}

    def list(self, request: Request) -> Answer:
        """Return all servers."""
        _only(request, set())
        kept = ("TrackingServerArn", "TrackingServerName", "TrackingServerStatus")
        found = (self.describe({"TrackingServerName": name}) for name in self.records)
        return {"TrackingServerSummaries": [{key: each[key] for key in kept} for each in found]}

    def record(self, name: str) -> Answer:
        """Return the record of a server. Raises SageMaker's error if there is none."""
        if name not in self.records:
            raise NotFoundError(f"Tracking server {name} not found")
        return self.records[name]

    def _settled(self, request: Request) -> Answer:
        record = self.record(request["TrackingServerName"])
        if record["deleting"] or not self._is_over(record):
            status = record["status"][0]
            raise ConflictError(f"Tracking server {request['TrackingServerName']} is {status}: wait until it is done.")
        return record

    def _is_over(self, record: Answer) -> bool:
        return bool(self._account.clock.now() >= record["over"])


def _only(request: Request, allowed: set[str]) -> None:
    if unknown := sorted(request.keys() - allowed):
        names = ", ".join(sorted(allowed)) or "none"
        raise ValidationFailedError(f"The account does not simulate {', '.join(unknown)}. Allowed: {names}.")


@cloudformation_model("AWS::SageMaker::MlflowTrackingServer")
class TrackingServer(ApiModel):
    """A tracking server; `Ref` is its name."""

    SERVICE = "sagemaker"
    MUTABLE = _IN_PLACE | {"Tags"}
    KNOWN = MUTABLE | {"MlflowVersion", "RoleArn", "TrackingServerName"}

    def make(self) -> str:
        self.api.create_mlflow_tracking_server(**self.properties)
        return str(self.properties["TrackingServerName"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old
        settings = changed - {"Tags"}
        if gone := settings - self.properties.keys():
            self.refuse(f"the embedded account cannot reset {', '.join(sorted(gone))} to its default")
        if settings:
            self.api.update_mlflow_tracking_server(TrackingServerName=self.physical_resource_id, **self.only(*settings))
        if "Tags" in changed:
            # SageMaker's tag calls reach HyperPod's clusters only.
            record = TrackingServers(self.account).record(self.physical_resource_id)
            record["fields"]["Tags"] = self.properties.get("Tags", [])

    def unmake(self) -> None:
        self.api.delete_mlflow_tracking_server(TrackingServerName=self.physical_resource_id)

    def is_created(self) -> bool:
        return self._status() not in ("Creating", "Updating")

    def is_deleted(self) -> bool:
        """Return whether SageMaker no longer lists the server."""
        return self._status() is None

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_mlflow_tracking_server(TrackingServerName=self.physical_resource_id)
        return {"TrackingServerArn": found["TrackingServerArn"]}

    def _status(self) -> str | None:
        try:
            found = self.api.describe_mlflow_tracking_server(TrackingServerName=self.physical_resource_id)
        except ClientError as error:
            if "NotFound" in (code_of(error) or ""):
                return None
            raise
        return str(found["TrackingServerStatus"])
