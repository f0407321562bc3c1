"""The base class of resource models that call the service's API, as CloudFormation's own handlers do.

The calls go to the account's own endpoint. botocore therefore checks every parameter, and the service refuses the
same requests that it refuses from any caller.
"""

import threading
from functools import cache
from typing import Any, ClassVar, NoReturn, Self

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError

from embedded_account.context import Account
from embedded_account.errors import ResourceError, code_of
from embedded_account.run_keys import RunKeys
from embedded_account.services.shared.resource_model import Declaration, ResourceModel

Properties = dict[str, Any]
"""The properties of a resource, with every intrinsic function resolved."""


_clients: dict[tuple[str, str, RunKeys], Any] = {}
_clients_lock = threading.Lock()  # a boto3 session is not safe for creating two clients at once


def client(account: Account, service: str) -> Any:
    """Return the client of `service` that CloudFormation uses in this account; it never retries."""
    key = (service, account.endpoint, account.keys)
    with _clients_lock:
        if key not in _clients:
            _clients[key] = _make_client(account, service)
        return _clients[key]


def _make_client(account: Account, service: str) -> Any:
    config = Config(retries={"mode": "standard", "total_max_attempts": 1}, s3={"addressing_style": "path"})
    return _session(account.keys, account.region).client(service, endpoint_url=account.endpoint, config=config)


@cache
def _session(keys: RunKeys, region: str) -> Any:
    """Return one session for all services: each new session would read AWS's endpoint data again."""
    return boto3.session.Session(
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        region_name=region,
    )


class ApiModel(ResourceModel):
    """A resource that is created, changed and deleted through its service's API.

    `SERVICE` names the boto3 client. A subclass implements `make`, `unmake` and, if `MUTABLE` is not empty, `change`.
    """

    SERVICE: ClassVar[str]

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration.account, "")
        self.declaration = declaration
        self.properties: Properties = declaration.properties

    @property
    def api(self) -> Any:
        """The boto3 client of the model's service."""
        return client(self.account, self.SERVICE)

    def make(self) -> str:
        """Create the resource with one call and return its physical id."""
        raise NotImplementedError

    def settle(self) -> None:
        """Make the calls that follow the creation; if one fails, the resource is deleted again."""

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        """Change the resource from `old` to `self.properties`; `changed` names the properties that differ."""
        raise NotImplementedError

    def unmake(self) -> None:
        """Delete the resource."""
        raise NotImplementedError

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        model = cls(declaration)
        try:
            model.physical_resource_id = model.make()
        except ParamValidationError as error:
            model.refuse(str(error))
        try:
            model.settle()
        except BaseException:
            model.remove()
            raise
        return model

    def update(self, declaration: Declaration) -> None:
        old, new = self.properties, declaration.properties
        changed = frozenset(name for name in {*old, *new} if old.get(name) != new.get(name))
        self.properties = new
        try:
            self.change(old, changed)
        except ParamValidationError as error:
            self.properties = old
            self.refuse(str(error))
        except BaseException:
            self.properties = old
            raise

    def remove(self) -> None:
        """Delete the resource; as in CloudFormation, a resource that no longer exists counts as deleted."""
        try:
            self.unmake()
        except ClientError as error:
            code = code_of(error) or ""
            if "NotFound" not in code and not code.startswith("NoSuch"):
                raise

    def refuse(self, reason: str) -> NoReturn:
        """Raise ResourceError with a message that names the resource's type."""
        raise ResourceError(f"{self.TYPE}: {reason}")

    def only(self, *names: str) -> Properties:
        """Return those of the named properties that the template sets."""
        return {name: self.properties[name] for name in names if name in self.properties}
