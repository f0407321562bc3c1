"""Faults on demand: what the simulator lets go wrong when a test or a drill asks for it.

`POST /_rehearsal/hyperpod/faults` takes one JSON object; each key is optional, unknown keys are refused:

- `"capacity": {"ml.p5.48xlarge": 2}`: instances of the type that AWS has for this account (null: without limit).
- `"quota": {"ml.p5.48xlarge": 4}`: the service quota "... for cluster usage" (null: without limit).
- `"errors": {"UpdateCluster": {"error": "ThrottlingException", "message": "…", "times": 1, "after": false}}`: the
  call is refused with this code `times` times (default: always). With `"after": true` it is carried out and the
  answer is lost. A string stands for `{"error": …}`; `"create"`, `"update"`, `"delete"` at the top are short for
  the calls CreateCluster, UpdateCluster and DeleteCluster; null ends the fault.
- `"fail_creation": "message"`: the next cluster ends in Failed with this FailureMessage.
- `"fail_lifecycle": {"group": "worker-group-1", "times": 1}`: lifecycle scripts fail on the group's next nodes.
- `"fail_deep_check": {"group": "worker-group-1", "times": 1}`: deep health checks fail on the group's next nodes.
- `"fail_node": {"instance": "i-…", "reason": "…", "heartbeat": false}` or `{"group": …}` for any running node of the
  group: a hardware fault now; with `"heartbeat": false` the node also falls silent. Add `"cluster"` to choose one.
- `"clear": true`: forgets all of the above first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from werkzeug.exceptions import BadRequest

from rehearsal.account.hyperpod.errors import ApiError

if TYPE_CHECKING:
    from rehearsal.account.context import Account
    from rehearsal.account.hyperpod.state import HyperPod

SHORT_FORMS: Final = {"create": "CreateCluster", "update": "UpdateCluster", "delete": "DeleteCluster"}
KEYS: Final = (
    "capacity",
    "quota",
    "errors",
    *SHORT_FORMS,
    "fail_creation",
    "fail_lifecycle",
    "fail_deep_check",
    "fail_node",
    "clear",
)
ALWAYS: Final = 1_000_000
DEFAULT_REASON: Final = "NvidiaGpuXidError_74"


@dataclass
class CallFault:
    """A call that is refused: before it is carried out, or after, so that only its answer is lost."""

    code: str
    message: str
    after: bool
    times: int


@dataclass
class Faults:
    """The faults that are set."""

    capacity: dict[str, int] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=dict)
    calls: dict[str, CallFault] = field(default_factory=dict)
    creation: str = ""
    lifecycle: dict[str, int] = field(default_factory=dict)
    deep_check: dict[str, int] = field(default_factory=dict)

    def raise_for(self, operation: str, *, after: bool) -> None:
        """Raise the error that is set for this call at this moment, if any."""
        fault = self.calls.get(operation)
        if fault is None or fault.after is not after:
            return
        fault.times -= 1
        if fault.times <= 0:
            del self.calls[operation]
        raise ApiError(fault.message, fault.code)

    def take_creation(self) -> str:
        """The FailureMessage of the cluster that is being created, "" when it may succeed."""
        message, self.creation = self.creation, ""
        return message

    def take_lifecycle(self, group: str) -> bool:
        """Whether the lifecycle scripts of a new node of the group fail."""
        return _take(self.lifecycle, group)

    def take_deep_check(self, group: str) -> bool:
        """Whether the deep health checks of a new node of the group fail."""
        return _take(self.deep_check, group)


def handle(account: "Account", body: Mapping[str, Any]) -> dict[str, Any]:
    """Set faults of the account's simulator; see the module. Raises BadRequest with what is allowed."""
    from rehearsal.account.hyperpod import simulator_of  # noqa: PLC0415 - the package imports this module

    return apply(simulator_of(account), body)


def apply(hyperpod: "HyperPod", body: Mapping[str, Any]) -> dict[str, Any]:
    """Set faults of the simulator; returns the ids of nodes that were made to fail."""
    unknown = [key for key in body if key not in KEYS]
    if unknown:
        raise BadRequest(f"unknown fault {', '.join(sorted(unknown))}; allowed: {', '.join(KEYS)}")
    with hyperpod.lock:
        if body.get("clear"):
            hyperpod.world.faults = Faults()
        faults = hyperpod.world.faults
        _merge(faults.capacity, body.get("capacity", {}))
        _merge(faults.quota, body.get("quota", {}))
        calls = dict(body.get("errors", {}))
        calls |= {SHORT_FORMS[key]: value for key, value in body.items() if key in SHORT_FORMS}
        for operation, value in calls.items():
            _set_call(faults, operation, value)
        faults.creation = body.get("fail_creation", faults.creation)
        for key, table in (("fail_lifecycle", faults.lifecycle), ("fail_deep_check", faults.deep_check)):
            if key in body:
                table[body[key]["group"]] = body[key].get("times", ALWAYS)
        failed = [_fail_node(hyperpod, body["fail_node"])] if "fail_node" in body else []
    return {"failed_nodes": failed}


def _merge(table: dict[str, int], changes: Mapping[str, int | None]) -> None:
    for name, value in changes.items():
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value


def _set_call(faults: Faults, operation: str, value: Any) -> None:
    if value is None:
        faults.calls.pop(operation, None)
        return
    fields: dict[str, Any] = {"error": value} if isinstance(value, str) else dict(value)
    unknown = fields.keys() - {"error", "message", "after", "times"}
    if unknown or "error" not in fields:
        raise BadRequest(f"errors.{operation}: needs error; message, after and times are allowed, not {unknown}")
    code = fields["error"]
    message = fields.get("message", f"{code}, as the rehearsal was asked to answer {operation}")
    faults.calls[operation] = CallFault(code, message, bool(fields.get("after")), fields.get("times", ALWAYS))


def _fail_node(hyperpod: "HyperPod", wanted: Mapping[str, Any]) -> str:
    unknown = wanted.keys() - {"cluster", "group", "instance", "reason", "heartbeat"}
    if unknown:
        raise BadRequest(f"fail_node: {', '.join(unknown)}; allowed: cluster, group, instance, reason, heartbeat")
    for cluster in hyperpod.world.clusters.values():
        if wanted.get("cluster", cluster.name) != cluster.name:
            continue
        node = hyperpod.nodes.running_node(cluster, wanted.get("group", ""), wanted.get("instance", ""))
        if node:
            reason = str(wanted.get("reason", DEFAULT_REASON))
            hyperpod.nodes.hardware_fault(cluster, node, reason, heartbeat=bool(wanted.get("heartbeat", True)))
            return node.instance_id
    raise BadRequest(f"fail_node: no running node matches {dict(wanted)}")


def _take(table: dict[str, int], group: str) -> bool:
    if table.get(group, 0) <= 0:
        return False
    table[group] -= 1
    return True
