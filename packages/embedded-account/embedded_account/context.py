"""Hold what all parts of the embedded account share: its identity, clock, journal and extensions."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from werkzeug.wrappers import Request

from embedded_account.action_faults import ActionFault
from embedded_account.background import Background
from embedded_account.journal import Clock, Journal
from embedded_account.machine.processes import ProgramEndedError
from embedded_account.run_keys import RunKeys

if TYPE_CHECKING:
    from embedded_account.kubernetes.pods.programs import RealRay
    from embedded_account.kubernetes.running import RunningCluster

_log = logging.getLogger(__name__)

Handler = Callable[[Request, str], Any]
"""Takes the request and the rest of the path after the route's prefix; returns the JSON body."""


class Routes(Protocol):
    """The account's own routes below /_rehearsal/, implemented in `embedded_account.control_routes`."""

    def route(self, method: str, path: str, handler: Handler, *, secret_address: bool = False) -> None:
        """Answer `method` /_rehearsal/`path` with the return value of `handler` as JSON."""


class OwnedResource(Protocol):
    """A resource of a stack."""

    @property
    def type(self) -> str:
        """Return CloudFormation's name of the resource type."""

    @property
    def physical_id(self) -> str:
        """Return what `Ref` returns."""


class OwningStack(Protocol):
    """A stack, with what other parts of the account need of it."""

    name: str
    stack_id: str
    status: str

    @property
    def role_arn(self) -> str | None:
        """Return the service role that CloudFormation uses; None means the caller's own rights."""


class AccountStacks(Protocol):
    """The stacks of the account, stored by `embedded_account.cloudformation.store`."""

    def living(self) -> Sequence[OwningStack]:
        """Return the stacks that have not been deleted."""

    def find(self, name_or_id: str) -> OwningStack | None:
        """Return the stack with this name or id, or None."""

    def owners(self) -> Iterator[tuple[OwningStack, OwnedResource]]:
        """Yield each resource with the stack that owns it."""

    def clear(self) -> None:
        """Forget every stack."""


class Clusters(Protocol):
    """The Kubernetes control planes of the account's EKS clusters, run by `embedded_account.services.eks.host`."""

    def prepare(self, name: str, issuer: str, version: str) -> None:
        """Begin to start the control plane of a cluster that is created later."""

    def start(self, name: str, issuer: str, version: str) -> "RunningCluster":
        """Start the control plane of a cluster; return the running cluster."""

    def upgrade(self, name: str, version: str) -> None:
        """Run the control plane of a cluster as another version."""

    def stop(self, name: str) -> None:
        """End the control plane of a cluster."""

    def all(self) -> "list[RunningCluster]":
        """Return the clusters whose control plane runs."""

    def get(self, name: str) -> "RunningCluster":
        """Return a cluster whose control plane runs. Raises KeyError if there is none."""

    def of_issuer(self, issuer: str) -> "RunningCluster | None":
        """Return the cluster with this OIDC issuer, or None."""


class TokenIssuer(Protocol):
    """An OIDC issuer: that of a cluster, or one outside of AWS such as GitHub's."""

    def user_of_token(self, token: str, audience: str) -> str | None:
        """Return the subject of a token that the issuer gave for this audience and that is still valid, or None."""


class InvokeResult(Protocol):
    """The outcome of one synchronous invocation of a function."""

    payload: bytes
    error: bool
    logs: str


class FunctionRuntime(Protocol):
    """The runtime of deployed Lambda functions, implemented in `embedded_account.lambdas.runtime`."""

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> InvokeResult:
        """Run the function and wait for it. An error that the function raises is a result with `error` set."""


@dataclass
class Account:
    """The embedded account. The server creates it once and passes it to `install` of every extension.

    The fields that the constructor does not take are set by their owners: `routes` by the server, `stacks` by
    cloudformation, `clusters` by services.eks, `functions` by lambdas. `existing` holds the ids of the resources that
    existed before the environment. An extension registers with `account.at_end.callback(stop)` how to stop what it
    starts; the last registered stops first. `failed` is called when a program of a control plane has ended on its own.

    `quotas` are those that differ from a new account's, by service and by the quota's name or a pattern of it.

    An extension adds the ARNs of what the account itself brings to `provided`, so that no inventory lists them, and to
    `played_images` patterns of the images whose pods it plays: it reports their status, and ends them. The pods of
    the images of `real_rays` really run.

    A test adds to `action_faults` which actions of CloudFormation fail, and to `token_issuers` the OIDC issuers outside
    of the account, by URL.
    """

    account_id: str
    region: str
    port: int
    directory: Path
    binaries: Path
    node_modules: Path
    clock: Clock
    journal: Journal
    keys: RunKeys = field(default_factory=RunKeys.issue)
    authenticator_secret: str = field(default_factory=secrets.token_urlsafe, repr=False)
    at_end: ExitStack = field(default_factory=ExitStack)
    existing: set[str] = field(default_factory=set)
    provided: set[str] = field(default_factory=set)
    played_images: list[str] = field(default_factory=list)
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    action_faults: list[ActionFault] = field(default_factory=list)
    token_issuers: "dict[str, TokenIssuer]" = field(default_factory=dict)
    real_rays: "Sequence[RealRay]" = ()
    failed: Callable[[ProgramEndedError], None] = lambda failure: _log.error("%s", failure)
    routes: Routes = field(init=False)
    stacks: AccountStacks = field(init=False)
    background: Background = field(init=False)
    clusters: Clusters = field(init=False)
    functions: FunctionRuntime = field(init=False)

    def __post_init__(self) -> None:
        self.background = Background(self.account_id, self.region, self.journal)

    @property
    def endpoint(self) -> str:
        """Return the AWS endpoint for children.

        The host is a number, because JavaScript's S3 client would put a bucket's name before a host name.
        """
        return f"http://127.0.0.1:{self.port}"

    def authenticator_url(self, cluster: str) -> str:
        """Return the URL at which a cluster's API server asks for the owner of a token.

        The URL contains a secret, because the API server sends no credentials over HTTP.
        """
        return f"{self.endpoint}/_rehearsal/authenticate/{self.authenticator_secret}/{cluster}"

    @property
    def response_url(self) -> str:
        """Return the base of the ResponseURL of custom resources: a request's URL is this base, "/" and its token.

        CDK's provider framework always answers over https to a host without a port. Functions on Node therefore get the
        base `NODE_RESPONSE_URL`, and the Node runner sends to this URL what is meant for that host.
        """
        return f"{self.endpoint}/_rehearsal/cfn-response"


NODE_RESPONSE_URL = "https://cfn-response.invalid/_rehearsal/cfn-response"
