"""What every part of the embedded account shares: its identity, its clock, its journal and its neighbours."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from werkzeug.wrappers import Request

from embedded_account.background import Background
from embedded_account.journal import Clock, Journal
from embedded_account.machine.processes import ProgramEndedError
from embedded_account.run_keys import RunKeys

if TYPE_CHECKING:
    from embedded_account.kubernetes.running import RunningCluster

_log = logging.getLogger(__name__)

Handler = Callable[[Request, str], Any]
"""Takes the request and what follows the route's prefix; returns what becomes the JSON body."""


class Routes(Protocol):
    """The account's own routes below /_rehearsal/; `embedded_account.control_routes` has them."""

    def route(self, method: str, path: str, handler: Handler, *, secret_address: bool = False) -> None:
        """Answer a path with what the handler returns, as JSON."""


class OwnedResource(Protocol):
    """A resource of a stack."""

    @property
    def type(self) -> str:
        """CloudFormation's name of the resource type."""

    @property
    def physical_id(self) -> str:
        """What `Ref` returns."""


class OwningStack(Protocol):
    """A stack, as far as other parts of the account ask for it."""

    name: str
    stack_id: str
    status: str

    @property
    def role_arn(self) -> str | None:
        """The service role that CloudFormation works with; None: the caller's own rights."""


class Stacks(Protocol):
    """The stacks of the account; `embedded_account.cloudformation.store` keeps them."""

    def living(self) -> Sequence[OwningStack]:
        """Return the stacks that have not been deleted."""

    def find(self, name_or_id: str) -> OwningStack | None:
        """Return the stack with this name or id, None if there is none."""

    def owners(self) -> Iterator[tuple[OwningStack, OwnedResource]]:
        """Yield each resource with the stack that owns it."""

    def clear(self) -> None:
        """Forget every stack."""


class Clusters(Protocol):
    """The Kubernetes control planes of the account's EKS clusters; `embedded_account.services.eks.host` runs them."""

    def start(self, name: str, issuer: str) -> "RunningCluster":
        """Start the control plane of a cluster."""

    def stop(self, name: str) -> None:
        """End the control plane of a cluster."""

    def all(self) -> "list[RunningCluster]":
        """Return the clusters whose control plane runs."""

    def get(self, name: str) -> "RunningCluster":
        """Return a cluster whose control plane runs; raises KeyError when there is none."""

    def of_issuer(self, issuer: str) -> "RunningCluster | None":
        """Return the cluster with this OIDC issuer, None if there is none."""


class InvokeResult(Protocol):
    """The outcome of one synchronous function invocation."""

    payload: bytes
    error: bool
    logs: str


class FunctionRuntime(Protocol):
    """Runs a deployed Lambda function; `embedded_account.lambdas.runtime` is one."""

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> InvokeResult:
        """Run the function and wait for it; a raised error of the function is a result with `error` set."""


@dataclass
class Account:
    """The embedded account. Made once by the server, handed to every extension's `install`.

    Fields outside the constructor are filled in by whoever owns them: `routes` by the server, `stacks` by
    cloudformation, `clusters` by services.eks, `functions` by lambdas. `existing` holds
    the ids of what was there before the environment. What an extension starts it ends with
    `account.at_end.callback(stop)`; the last registered goes first. `failed` is called when a program of a control
    plane has ended by itself.
    """

    account_id: str
    region: str
    port: int
    directory: Path
    binaries: Path
    clock: Clock
    journal: Journal
    keys: RunKeys = field(default_factory=RunKeys.issue)
    authenticator_secret: str = field(default_factory=secrets.token_urlsafe, repr=False)
    at_end: ExitStack = field(default_factory=ExitStack)
    existing: set[str] = field(default_factory=set)
    failed: Callable[[ProgramEndedError], None] = lambda failure: _log.error("%s", failure)
    routes: Routes = field(init=False)
    stacks: Stacks = field(init=False)
    background: Background = field(init=False)
    clusters: Clusters = field(init=False)
    functions: FunctionRuntime = field(init=False)

    def __post_init__(self) -> None:
        self.background = Background(self.account_id, self.region, self.journal)

    @property
    def endpoint(self) -> str:
        """The AWS endpoint for children (the number: JavaScript's S3 client would put a bucket before a name)."""
        return f"http://127.0.0.1:{self.port}"

    def authenticator_url(self, cluster: str) -> str:
        """Where a cluster's API server asks whose a token is: a secret, for over HTTP it sends no credentials."""
        return f"{self.endpoint}/_rehearsal/authenticate/{self.authenticator_secret}/{cluster}"

    @property
    def response_url(self) -> str:
        """Base of the ResponseURL of custom resources; a request's own URL is this plus "/" plus its token.

        CDK's provider framework always answers over https to a host without a port, so functions on Node get
        the base `NODE_RESPONSE_URL` instead, and the Node runner sends what is meant for that host here.
        """
        return f"{self.endpoint}/_rehearsal/cfn-response"


NODE_RESPONSE_URL = "https://cfn-response.invalid/_rehearsal/cfn-response"
