"""What every part of the embedded account shares: its identity, its clock, its journal and its neighbours."""

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from embedded_account.processes import ProgramEndedError
from embedded_account.run_keys import RunKeys

if TYPE_CHECKING:
    from embedded_account.background import Background
    from embedded_account.cloudformation.store import Store
    from embedded_account.control_routes import ControlRoutes
    from embedded_account.services.eks import ClusterHost

_log = logging.getLogger(__name__)

JournalKind = str
"""One of "cfn", "lambda", "eks", "hyperpod", "eni", "api" (calls that a simulator answered), "event" (EventBridge)."""


class Clock:
    """Real time, with simulated waits shortened.

    `scale` is simulated seconds per real second: at 60 a simulated minute of HyperPod's provisioning takes one
    second. Only `sleep` is scaled; `now` is the wall clock, because clients compare it with their own.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"clock scale must be positive, not {scale}")
        self.scale = scale

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of simulated time."""
        time.sleep(seconds / self.scale)


class Journal:
    """Append-only record of what the account did, in memory and as one JSON object per line in a file.

    Every entry has `seq` (from 1), `time` (seconds since the epoch) and `kind`; the rest is the recorder's.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []

    def record(self, kind: JournalKind, **fields: Any) -> dict[str, Any]:
        """Append one entry and return it. Values that JSON does not know are written as text."""
        with self._lock:
            entry = {
                "seq": len(self._entries) + 1,
                "time": self._clock.now().timestamp(),
                "kind": kind,
                **fields,
            }
            self._entries.append(entry)
            self._file.write(json.dumps(entry, default=str) + "\n")
        return entry

    def entries(self, since: int = 0, kind: JournalKind | None = None) -> list[dict[str, Any]]:
        """Return the entries whose `seq` is above `since`, of one kind if given."""
        with self._lock:
            later = self._entries[since:]
        return [entry for entry in later if kind is None or entry["kind"] == kind]

    def close(self) -> None:
        """Close the file; the entries stay readable in memory."""
        with self._lock:
            self._file.close()


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
    cloudformation, `background` by embedded_account.background, `clusters` by services.eks, `functions` by
    lambdas. `existing` holds the ids of what was there before the environment. What an extension starts it ends with
    `account.at_end.callback(stop)`; the last registered goes first. `failed` is told when a program of a control plane
    has ended by itself.
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
    routes: "ControlRoutes" = field(init=False)
    stacks: "Store" = field(init=False)
    background: "Background" = field(init=False)
    clusters: "ClusterHost" = field(init=False)
    functions: FunctionRuntime = field(init=False)

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
