"""Amazon Managed Grafana: the calls on workspaces, which moto lacks, and CloudFormation's model of one.

Simulated: the life cycle, in simulated minutes. No Grafana runs, IAM Identity Center counts as enabled, and nobody is
assigned to a workspace. Refused although AWS might accept it: a role that Grafana cannot assume.
Sources: Amazon Managed Grafana API reference, CreateWorkspace and its neighbours; CloudFormation's schema of
AWS::Grafana::Workspace; Amazon Managed Grafana user guide, AMG-configure-nac.
"""

import re
import secrets
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from botocore.exceptions import ClientError
from moto import backend_index
from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.responses import ActionResult, BaseResponse
from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.errors import code_of
from embedded_account.services.iam.access import trusts
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.refusal import Refusal
from embedded_account.services.shared.resource_model import cloudformation_model, serve
from embedded_account.tags import tag_map

Request = Mapping[str, Any]
Answer = dict[str, Any]

CREATION: Final = timedelta(minutes=5)
CHANGE: Final = timedelta(minutes=2)
DELETION: Final = timedelta(minutes=3)

_SIMULATED: Final[Mapping[str, Any]] = {
    "accountAccessType": "CURRENT_ACCOUNT",
    "permissionType": "CUSTOMER_MANAGED",
    "authenticationProviders": ["AWS_SSO"],
}
_IN_PLACE: Final = frozenset({"networkAccessControl", "workspaceDescription", "workspaceName", "workspaceRoleArn"})
_NAME: Final = re.compile(r"[a-zA-Z0-9-._~]{1,255}")
_MOST_LISTS: Final = 5
_HOST: Final = r"https?://grafana\.(.+)\.amazonaws\.com"


class GrafanaBackend(BaseBackend):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """The workspaces of an account and region, by their ids."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.workspaces: dict[str, Answer] = {}

    @property
    def _url_module(self) -> Any:
        paths = ("{0}/workspaces$", "{0}/workspaces/(?P<workspaceId>[^/]+)$")
        return SimpleNamespace(url_bases=[_HOST], url_paths=dict.fromkeys(paths, GrafanaResponse.dispatch))


class GrafanaResponse(BaseResponse):  # type: ignore[misc]  # moto publishes no types, its base class is Any
    """The calls that are answered; `install` adds them. moto answers every other call with an error."""

    def __init__(self) -> None:
        super().__init__(service_name="grafana")
        self.automated_parameter_parsing = True


grafana_backends: Final = BackendDict(GrafanaBackend, "grafana")


def install(account: Account) -> None:
    """Let moto's server find the service, answer its calls on this account, and serve the model."""
    serve(account)
    module = ModuleType("moto.grafana")
    module.grafana_backends = grafana_backends  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    if all(name != "grafana" for name, _ in backend_index.backend_url_patterns):
        backend_index.backend_url_patterns.append(("grafana", re.compile(_HOST)))
    workspaces = Workspaces(account)
    for operation in ("create", "describe", "update", "delete", "list"):
        name = f"{operation}_workspace{'s' if operation == 'list' else ''}"
        setattr(GrafanaResponse, name, _route(getattr(workspaces, operation)))


def _route(answer: Callable[[Request], Answer]) -> Callable[[Any], ActionResult]:
    return lambda response: ActionResult(answer(response.params))


class Workspaces:
    """The workspaces of one account."""

    def __init__(self, account: Account) -> None:
        self._account = account

    @property
    def records(self) -> dict[str, Answer]:
        """The workspaces by id, without those whose deletion is over."""
        self.forget_deleted()
        return self._found

    def forget_deleted(self) -> None:
        """Forget the workspaces whose deletion is over."""
        for id in [id for id, record in self._found.items() if record["deleting"] and self._is_over(record)]:
            del self._found[id]

    @property
    def _found(self) -> dict[str, Answer]:
        found: dict[str, Answer] = grafana_backends[self._account.account_id][self._account.region].workspaces
        return found

    def create(self, request: Request) -> Answer:
        """Create a workspace. Raises Grafana's error for values that it refuses, or that are not simulated."""
        self._require(request, {*_SIMULATED, *_IN_PLACE, "clientToken", "tags"})
        for name, only in _SIMULATED.items():
            if request.get(name) != only:
                raise _invalid(f"The account simulates {name} {only} only.")
        if "workspaceRoleArn" not in request:
            raise _invalid("CURRENT_ACCOUNT needs workspaceRoleArn.")
        id = f"g-{secrets.token_hex(5)}"
        fields = {name: value for name, value in request.items() if name != "clientToken"}
        self.records[id] = {
            "arn": f"arn:aws:grafana:{self._account.region}:{self._account.account_id}:/workspaces/{id}",
            "created": self._account.clock.now(),
            "deleting": False,
            "fields": fields,
            "over": self._account.clock.after(CREATION),
            "status": "CREATING",
        }
        return self.describe({"workspaceId": id})

    def describe(self, request: Request) -> Answer:
        """Return a workspace as Grafana describes it."""
        id, record = request["workspaceId"], self.record(request["workspaceId"])
        fields = record["fields"]
        named = {name.removeprefix("workspace"): value for name, value in fields.items() if name in _IN_PLACE}
        described = {name[0].lower() + name[1:]: value for name, value in named.items() if name != "RoleArn"}
        return {
            "workspace": {
                **described,
                "id": id,
                "endpoint": f"{id}.grafana-workspace.{self._account.region}.amazonaws.com",
                "accountAccessType": fields["accountAccessType"],
                "permissionType": fields["permissionType"],
                "authentication": {"providers": fields["authenticationProviders"]},
                "workspaceRoleArn": fields["workspaceRoleArn"],
                "status": "ACTIVE" if self._is_over(record) else record["status"],
                "dataSources": [],
                "grafanaVersion": "10.4",
                "created": record["created"],
                "modified": record["created"],
                "tags": fields.get("tags", {}),
            }
        }

    def update(self, request: Request) -> Answer:
        """Change a workspace that no other change is at work on."""
        self._require(request, {*_IN_PLACE, "workspaceId"})
        record = self._settled(request)
        record["fields"].update({name: value for name, value in request.items() if name != "workspaceId"})
        record.update(status="UPDATING", over=self._account.clock.after(CHANGE))
        return self.describe(request)

    def delete(self, request: Request) -> Answer:
        """Delete a workspace with its dashboards."""
        self._settled(request).update(deleting=True, status="DELETING", over=self._account.clock.after(DELETION))
        return self.describe(request)

    def list(self, request: Request) -> Answer:
        """Return all workspaces."""
        self._require(request, set())
        kept = ("id", "endpoint", "name", "description", "authentication", "status", "grafanaVersion", "created")
        found = (self.describe({"workspaceId": id})["workspace"] for id in self.records)
        return {
            "workspaces": [
                {**{key: each[key] for key in kept if key in each}, "modified": each["modified"]} for each in found
            ]
        }

    def record(self, id: str) -> Answer:
        """Return the record of a workspace. Raises Grafana's error if there is none."""
        # One look: a deletion can end between two.
        found: Answer | None = self.records.get(id)
        if found is None:
            raise Refusal("ResourceNotFoundException", f"Workspace {id} was not found.")
        return found

    def _require(self, request: Request, simulated: set[str]) -> None:
        if unknown := sorted(request.keys() - simulated):
            raise _invalid(f"The account does not simulate {', '.join(unknown)}.")
        if not _NAME.fullmatch(request.get("workspaceName", "a")):
            raise _invalid(f"workspaceName must match {_NAME.pattern}.")
        role = request.get("workspaceRoleArn")
        if role is not None and not trusts(self._account, role, "grafana.amazonaws.com"):
            raise _invalid(f"grafana.amazonaws.com cannot assume the role {role}.")
        if "networkAccessControl" in request:
            self._require_networks(request["networkAccessControl"])

    def _require_networks(self, control: Request) -> None:
        if control["vpceIds"]:
            raise _invalid("The account does not simulate vpceIds.")
        lists, ec2 = control["prefixListIds"], ec2_backends[self._account.account_id][self._account.region]
        if not 0 < len(lists) <= _MOST_LISTS:
            raise _invalid(f"networkAccessControl needs 1 to {_MOST_LISTS} prefix lists or VPC endpoints.")
        for id in lists:
            found = ec2.managed_prefix_lists.get(id)
            if found is None or found.state == "delete-complete":
                raise _invalid(f"The prefix list {id} does not exist.")

    def _settled(self, request: Request) -> Answer:
        record = self.record(request["workspaceId"])
        if record["deleting"] or not self._is_over(record):
            raise Refusal("ConflictException", f"Workspace {request['workspaceId']} is {record['status']}.")
        return record

    def _is_over(self, record: Answer) -> bool:
        return bool(self._account.clock.now() >= record["over"])


def _invalid(message: str) -> Refusal:
    return Refusal("ValidationException", message)


_PARAMETERS: Final = {
    "AccountAccessType": "accountAccessType",
    "AuthenticationProviders": "authenticationProviders",
    "Description": "workspaceDescription",
    "Name": "workspaceName",
    "PermissionType": "permissionType",
    "RoleArn": "workspaceRoleArn",
}


@cloudformation_model("AWS::Grafana::Workspace")
class GrafanaWorkspaceModel(ApiModel):
    """A workspace; `Ref` is its id."""

    SERVICE = "grafana"
    MUTABLE = frozenset({"Description", "Name", "NetworkAccessControl", "RoleArn", "Tags"})
    KNOWN = MUTABLE | {*_PARAMETERS}

    def make(self) -> str:
        return str(self.api.create_workspace(**self._request(*self.properties), tags=_tags(self))["workspace"]["id"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        del old
        settings = changed - {"Tags"}
        if gone := settings - self.properties.keys():
            self.refuse(f"the embedded account cannot remove {', '.join(sorted(gone))}")
        if settings:
            self.api.update_workspace(workspaceId=self.physical_resource_id, **self._request(*settings))
        if "Tags" in changed:
            # moto's server cannot route an ARN with a slash in a path.
            Workspaces(self.account).record(self.physical_resource_id)["fields"]["tags"] = _tags(self)

    def unmake(self) -> None:
        self.api.delete_workspace(workspaceId=self.physical_resource_id)

    def is_created(self) -> bool:
        return self._described("status") == "ACTIVE"

    def is_deleted(self) -> bool:
        """Return whether Grafana no longer knows the workspace."""
        return self._described("status") is None

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id, "Endpoint": self._described("endpoint")}

    def _described(self, field: str) -> str | None:
        try:
            found = self.api.describe_workspace(workspaceId=self.physical_resource_id)["workspace"]
        except ClientError as error:
            if "NotFound" in (code_of(error) or ""):
                return None
            raise
        return str(found[field])

    def _request(self, *names: str) -> Answer:
        request = {_PARAMETERS[name]: self.properties[name] for name in names if name in _PARAMETERS}
        if "NetworkAccessControl" in names:
            control = self.properties["NetworkAccessControl"]
            request["networkAccessControl"] = {
                "prefixListIds": control.get("PrefixListIds", []),
                "vpceIds": control.get("VpceIds", []),
            }
        return request


def _tags(workspace: GrafanaWorkspaceModel) -> dict[str, str]:
    return tag_map(workspace.properties.get("Tags", []))
