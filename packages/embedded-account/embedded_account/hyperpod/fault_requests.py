"""Faults on demand: what the simulator lets go wrong when a test or a drill asks for it.

`POST /_rehearsal/hyperpod/faults` takes one JSON object; each key is optional, unknown keys are refused:

- `"capacity": {"ml.p5.48xlarge": 2}`: instances of the type that AWS has for this account (null: without limit).
- `"quota": {"ml.p5.48xlarge": 4}`: the service quota "... for cluster usage" (null: without limit).
- `"errors": {"UpdateCluster": {"error": "ThrottlingException", "message": "…", "times": 1, "after": false}}`: the
  call is refused with this code `times` times (default: always). With `"after": true` it is carried out and the
  answer is lost. A string stands for `{"error": …}`; `"create"`, `"update"`, `"delete"` at the top are short for
  the calls CreateCluster, UpdateCluster and DeleteCluster; null ends the fault.
- `"fail_creation": "message"`: the next cluster ends in Failed with this FailureMessage.
- `"fail_update": "message"`: the next update is taken back: Updating, RollingBack, InService as it was before, with
  the message in the events.
- `"fail_deletion": "message"`: the next deletion ends in Failed with this FailureMessage, the cluster as it was.
- `"lag_minutes": 4`: what a call changes from now on is seen by DescribeCluster, ListClusters and ListTags so many
  minutes later; a new cluster is not known until then (0: at once).
- `"fail_lifecycle": {"group": "worker-group-1", "times": 1}`: lifecycle scripts fail on the group's next nodes.
- `"fail_deep_check": {"group": "worker-group-1", "times": 1}`: deep health checks fail on the group's next nodes.
- `"fail_node": {"instance": "i-…", "reason": "…", "heartbeat": false}` or `{"group": …}` for any running node of the
  group: a hardware fault now; with `"heartbeat": false` the node also falls silent. Add `"cluster"` to choose one.
- `"clear": true`: forgets all of the above first.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError
from werkzeug.exceptions import BadRequest

from embedded_account.hyperpod.faults import ALWAYS, CallError, Faults, Strict
from embedded_account.hyperpod.permissions.required import REQUIRED
from embedded_account.hyperpod.state import HyperPodService


class GroupFault(Strict):
    """A fault of a group's next nodes."""

    group: str
    times: PositiveInt = ALWAYS


class NodeFault(Strict):
    """A hardware fault of one running node; "" stands for any."""

    cluster: str = ""
    group: str = ""
    instance: str = ""
    reason: str = "NvidiaGpuXidError_74"
    heartbeat: bool = True


def _spelled_out(value: Any) -> Any:
    return {"error": value} if isinstance(value, str) else value


_CallError = Annotated[CallError | None, BeforeValidator(_spelled_out)]


class FaultRequest(Strict):
    """The body of the faults route; see the module."""

    capacity: dict[str, NonNegativeInt | None] = Field(default_factory=dict)
    quota: dict[str, NonNegativeInt | None] = Field(default_factory=dict)
    errors: dict[str, _CallError] = Field(default_factory=dict)
    create: _CallError = None
    update: _CallError = None
    delete: _CallError = None
    fail_creation: str = ""
    fail_update: str = ""
    fail_deletion: str = ""
    lag_minutes: NonNegativeFloat | None = None
    fail_lifecycle: GroupFault | None = None
    fail_deep_check: GroupFault | None = None
    fail_node: NodeFault | None = None
    clear: bool = False

    def calls(self) -> dict[str, CallError | None]:
        """The refusals by API call, short forms spelled out."""
        short = {"create": "CreateCluster", "update": "UpdateCluster", "delete": "DeleteCluster"}
        given = {call: getattr(self, name) for name, call in short.items() if name in self.model_fields_set}
        return self.errors | given


def apply(hyperpod: HyperPodService, body: Mapping[str, Any]) -> dict[str, Any]:
    """Set faults of the simulator; returns the ids of nodes that were made to fail.

    Raises BadRequest that names what is wrong, before anything is set.
    """
    request = _parse(body)
    with hyperpod.lock:
        hyperpod.tick()
        if request.clear:
            hyperpod.world.faults = Faults()
        faults = hyperpod.world.faults
        _merge(faults.capacity, request.capacity)
        _merge(faults.quota, request.quota)
        _merge(faults.calls, request.calls())
        faults.creation = request.fail_creation or faults.creation
        faults.update = request.fail_update or faults.update
        faults.deletion = request.fail_deletion or faults.deletion
        faults.lag_minutes = faults.lag_minutes if request.lag_minutes is None else request.lag_minutes
        for fault, table in ((request.fail_lifecycle, faults.lifecycle), (request.fail_deep_check, faults.deep_check)):
            if fault:
                table[fault.group] = fault.times
        failed = [_fail_node(hyperpod, request.fail_node)] if request.fail_node else []
    return {"failed_nodes": failed}


def _parse(body: Mapping[str, Any]) -> FaultRequest:
    try:
        request = FaultRequest.model_validate(dict(body))
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise BadRequest(f"{found}. Allowed faults: {', '.join(FaultRequest.model_fields)}") from error
    unknown = [call for call in request.errors if call not in REQUIRED]
    if unknown:
        raise BadRequest(f"errors: {', '.join(unknown)} is no call of the simulator; it has {', '.join(REQUIRED)}")
    return request


def _merge(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value


def _fail_node(hyperpod: HyperPodService, wanted: NodeFault) -> str:
    for cluster in hyperpod.world.clusters.values():
        if wanted.cluster not in {"", cluster.name}:
            continue
        node = hyperpod.nodes.running_node(cluster, wanted.group, wanted.instance)
        if node:
            hyperpod.nodes.hardware_fault(cluster, node, wanted.reason, heartbeat=wanted.heartbeat)
            return node.instance_id
    raise BadRequest(f"fail_node: no running node matches {wanted!r}")
