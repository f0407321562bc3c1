"""Run the embedded account's CloudFormation with the real handlers, in one process and on a simulated clock.

Nothing is started and nothing sleeps. Functions are calls (`Framework` replaces CDK's framework), SageMaker is the
simulator without botocore's client, and answers reach the engine's route without a network. A deployment takes a few
milliseconds, so that thousands of them can be tried.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from werkzeug.test import Client as WebClient
from werkzeug.wrappers import Response as WebResponse

from embedded_account.cloudformation import custom_resources
from embedded_account.cloudformation.api.requests import desired_state
from embedded_account.cloudformation.engine import Engine, Options
from embedded_account.cloudformation.stack import Stack
from embedded_account.context import Account
from embedded_account.control_routes import ControlRoutes
from embedded_account.hyperpod.bench import ACCOUNT_ID, REGION, HyperPodBench
from embedded_account.journal import Clock, Journal
from embedded_account.services import sns  # noqa: F401 - its import makes the model of topics known
from embedded_account.testing.stacks import InvocationResult, failing
from handlers.hyperpod_cluster import index
from rehearsal.paths import NODE_MODULES
from tests.handlers.support.framework import Event, Framework, Properties, Response

SERVICE_TOKEN = f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:framework-onEvent"
STACK = "rayhp-dev-hyperpod"
LOGS = "\n\nLogs: /aws/lambda/rayhp-dev-hyperpod-Handler\n"


class SimulatedClock(Clock):
    """The account's clock, which follows the bench's."""

    def __init__(self, bench: HyperPodBench) -> None:
        super().__init__()
        self._bench = bench

    def now(self) -> datetime:
        return self._bench.clock.present

    def sleep(self, seconds: float) -> None:
        self._bench.advance(minutes=seconds / 60)


CANCELLED = "Resource update cancelled"

Judge = Callable[[Event, Response], None]


class Deployments:
    """One stack with a guard and a cluster in it, deployed by the engine.

    `judge` is called with every answer that CloudFormation accepts, `before_request` before each request, and
    `on_lost` with a request on which CloudFormation gives up before it is delivered. While
    `crashes` is positive, the framework's own function fails at its end instead of answering, and Lambda retries it.
    `errors` keeps what a judge or the framework double raises: the engine would take it for the function's failure.

    CloudFormation can give up on a request whose function still runs (`give_up_at`; `given_up` counts these requests):
    a user cancels the update, or another resource fails. The engine waits for every resource; AWS's CloudFormation
    sends the next request at once.
    """

    def __init__(self, bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> None:
        clock, nowhere = SimulatedClock(bench), Path(os.devnull)
        account = Account(ACCOUNT_ID, REGION, 0, nowhere, nowhere, NODE_MODULES, clock, Journal(nowhere, clock))
        account.routes = ControlRoutes(account)
        account.background = bench.background
        account.functions = self
        self._account = account
        self._engine = Engine(account)
        self._web = WebClient(account.routes.in_front_of(WebResponse(status=404)))
        self._answered: set[str] = set()
        self._monkeypatch = monkeypatch
        self._wait_for_functions()
        self._running = 0
        # The engine asks resources that do not depend on each other at the same time; the functions share a clock.
        self._turn = threading.Lock()
        self.given_up = 0
        self.on_lost: Callable[[Event], None] = lambda _: None
        self._lose_next = False
        self._status_at: dict[str, str] = {}
        self._rollback_began: datetime | None = None
        self.framework = Framework(bench, self._status, monkeypatch, lambda: self._rollback_began)
        self.stack: Stack | None = None
        self.requests: list[Event] = []
        self.judge: Judge = lambda *_: None
        self.before_request: Callable[[], None] = lambda: None
        self.crashes = 0
        self.errors: list[BaseException] = []

    def close(self) -> None:
        self._account.journal.close()

    # --- what a user asks of CloudFormation --------------------------------------------------------------

    def deploy(
        self,
        properties: Properties,
        *,
        fails_later: bool = False,
        on_failure: Any = "ROLLBACK",
        guard: str = "Teardown",
        without_cluster: bool = False,
    ) -> str:
        """Create the stack, or update it.

        With `fails_later` a resource that comes after the cluster fails; `guard` is the teardown resource's logical id.
        """
        stack = self._living() if self.living else self._new_stack()
        wanted = template(properties, fails_later=fails_later, guard=guard)
        if without_cluster:
            del wanted["Resources"]["Cluster"]
        body = {"TemplateBody": json.dumps(wanted)}
        desired = desired_state(self._account, body, stack, self._engine.lookups)
        self._engine.deploy(stack, desired, Options(on_failure=on_failure))
        return self._settled()

    def delete(self) -> str:
        self._engine.delete(self._living(), retain=frozenset(), token=None)
        return self._settled()

    def continue_rollback(self) -> str:
        """Call ContinueUpdateRollback, or RollbackStack if the stack kept its failed update."""
        stack = self._living()
        if stack.status == "UPDATE_ROLLBACK_FAILED":
            self._engine.continue_rollback(stack, frozenset(), None)
        else:
            self._engine.roll_back(stack, None)
        return self._settled()

    def give_up_at(self, pause: int) -> None:
        """Let CloudFormation give up on a request, and roll back, at the `pause`-th moment at which time passes."""
        self.framework.at_pause(pause, self._give_up)

    def lose_next(self, lose: bool) -> None:
        """Let CloudFormation give up on the cluster's next forward request before Lambda delivers it."""
        self._lose_next = lose

    def status_at(self, request: Event) -> str:
        """Return the stack's status when CloudFormation sent the request."""
        return self._status_at[request["RequestId"]]

    @property
    def has_cluster(self) -> bool:
        """Return whether the stack's record has the cluster."""
        return self.living and "Cluster" in self._living().resources

    @property
    def living(self) -> bool:
        return self.stack is not None and self.stack.status != "DELETE_COMPLETE"

    @property
    def status(self) -> str:
        """Return the stack's status; "" before the first stack."""
        return self.stack.status if self.stack else ""

    @property
    def properties(self) -> Properties:
        """Return the cluster's properties in the stack's record."""
        return self._living().resources["Cluster"].properties

    def reasons(self) -> list[str]:
        """Return the reasons of all failures in the stack's events, the oldest first."""
        return [event.reason or "" for event in self._living().events if event.status.endswith("_FAILED")]

    # --- the account's function runtime ------------------------------------------------------------------

    def invoke(self, function_arn: str, event: Mapping[str, Any]) -> InvocationResult:
        """Run CDK's framework for one request, as Lambda does."""
        assert function_arn == SERVICE_TOKEN
        request: Event = json.loads(json.dumps(event))
        self._running += 1
        self._turn.acquire()
        self._wait_for_functions()
        # A rollback begins with its first request: the times of the engine's own events are real ones.
        if "ROLLBACK" not in self.status:
            self._rollback_began = None
        elif self._rollback_began is None:
            self._rollback_began = self._account.clock.now()
        # CloudFormation needs seconds between two requests of a resource.
        self._account.clock.sleep(1)
        try:
            self._status_at[request["RequestId"]] = self.status
            if self._lost(request):
                return InvocationResult(b"null", error=False)
            self.before_request()
            self.requests.append(request)
            response = self.framework.handle(request)
            if self.crashes:
                self.crashes -= 1
                return InvocationResult(b'{"errorMessage": "Runtime exited without providing a reason"}', error=True)
            self.answer(request, response)
        except BaseException as error:  # noqa: BLE001 - `_settled` raises it in the test, not in the engine
            self.errors.append(error)
            self.answer(request, Response(False, "broken", reason=f"the test itself failed: {error!r}"))
        finally:
            self._turn.release()
            self._running -= 1
        return InvocationResult(b"null", error=False)

    def answer(self, request: Event, response: Response) -> None:
        """Answer CloudFormation, which accepts only the first answer to a request."""
        if request["ResponseURL"] in self._answered:
            return
        self._answered.add(request["ResponseURL"])
        body = {
            "Status": "SUCCESS" if response.succeeded else "FAILED",
            "Reason": "SUCCESS" if response.succeeded else f"Error: {response.reason}{LOGS}",
            "PhysicalResourceId": response.physical_id,
            "Data": dict(response.data),
            **{name: request[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
        }
        self._web.put(urlsplit(request["ResponseURL"]).path, data=json.dumps(body))
        if response.reason.startswith(("the test itself", CANCELLED)):
            return
        self.judge(request, response)

    # --- inside ------------------------------------------------------------------------------------------

    def _lost(self, request: Event) -> bool:
        """Return whether CloudFormation gives up on this request before it is delivered; keep it."""
        forward = self.status.endswith(("UPDATE_IN_PROGRESS", "CREATE_IN_PROGRESS")) and "ROLLBACK" not in self.status
        if not (self._lose_next and forward and request["ResourceType"] == index.CLUSTER):
            return False
        self._lose_next = False
        self.on_lost(request)
        physical_id = request.get("PhysicalResourceId", f"{STACK}-Cluster-1A2B3C4D5E6F")
        self.answer(request, Response(False, physical_id, reason=CANCELLED))
        return True

    def _give_up(self) -> None:
        """Fail the running request, let CloudFormation complete its rollback, and return to the function."""
        request = self.requests[-1]
        if request["ResourceType"] != index.CLUSTER or request["ResponseURL"] in self._answered:
            return
        # Nobody cancels a rollback.
        if self.status.endswith("ROLLBACK_IN_PROGRESS"):
            return
        self.given_up += 1
        # CloudFormation generates this id for a resource that never answered.
        physical_id = request.get("PhysicalResourceId", f"{STACK}-Cluster-1A2B3C4D5E6F")
        # The engine waits for a function to end after its answer, but not for this one, until the next request.
        self._monkeypatch.setattr(custom_resources, "LATENCY_SECONDS", 0.0)
        self.answer(request, Response(False, physical_id, reason=CANCELLED))
        self._turn.release()
        while self._living().busy:
            time.sleep(0.0005)
        self._turn.acquire()
        self._wait_for_functions()

    def _wait_for_functions(self) -> None:
        """Let the engine wait until a function has ended: the next one would share `Framework`'s state with it."""
        self._monkeypatch.setattr(custom_resources, "LATENCY_SECONDS", None)

    def _new_stack(self) -> Stack:
        self.stack = self._engine.new_stack(STACK)
        self._engine.store.add(self.stack)
        return self.stack

    def _living(self) -> Stack:
        assert self.stack is not None
        return self.stack

    def _status(self, stack_id: str) -> str:
        assert stack_id == self._living().stack_id
        return self.status

    def _settled(self) -> str:
        while self._living().busy or self._running:
            time.sleep(0.0005)
        if self.errors:
            raise self.errors[0]
        return self.status


def template(properties: Properties, *, fails_later: bool, guard: str) -> dict[str, Any]:
    """Return a template with the hyperpod stack's guard and cluster, in the real stack's order."""
    resources: dict[str, Any] = {
        guard: {"Type": index.TEARDOWN, "Properties": {"ServiceToken": SERVICE_TOKEN}},
        "Cluster": {
            "Type": index.CLUSTER,
            "Properties": {"ServiceToken": SERVICE_TOKEN} | properties,
            "DependsOn": guard,
        },
    }
    if fails_later:
        resources["Later"] = failing() | {"DependsOn": "Cluster"}
    return {"Resources": resources}
