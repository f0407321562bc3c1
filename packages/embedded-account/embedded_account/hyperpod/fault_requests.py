"""Inject faults into the simulator when a test or a drill requests them.

`POST /_rehearsal/hyperpod/faults` takes one JSON object. Each key is optional; unknown keys are refused:

- `"capacity": {"ml.p5.48xlarge": 2}`: instances of this type that AWS has for this account (null: no limit).
- `"quota": {"ml.p5.48xlarge": 4}`: the service quota "... for cluster usage" (null: no limit).
- `"errors": {"UpdateCluster": {"error": "ThrottlingException", "message": "…", "times": 1, "after": false}}`: refuse
  the call with this error code `times` times (default: always). With `"after": true` the simulator carries out the
  call but returns the error instead of the response. A string is short for `{"error": …}`. The top-level keys
  `"create"`, `"update"` and `"delete"` are short for CreateCluster, UpdateCluster and DeleteCluster. null removes the
  fault.
- `"fail_creation": "message"`: the next cluster creation ends in Failed with this FailureMessage.
- `"fail_update": "message"`: the next update is rolled back: Updating, RollingBack, then InService with the previous
  configuration; the events contain the message.
- `"fail_deletion": "message"`: the next deletion ends in Failed with this FailureMessage; the cluster is unchanged.
- `"lag_minutes": 4`: from now on DescribeCluster, ListClusters and ListTags show each change this many minutes
  late; a new cluster is unknown until then (0: no delay).
- `"fail_lifecycle": {"group": "worker-group-1", "times": 1}`: lifecycle scripts fail on the group's next nodes.
- `"fail_deep_check": {"group": "worker-group-1", "times": 1}`: deep health checks fail on the group's next nodes.
- `"image_version": {"worker-group-1": "EndOfLife"}`: the group's ImageVersionStatus, until its software is updated.
- `"fail_node": {"instance": "i-…", "reason": "…", "heartbeat": false}`, or `{"group": …}` for any running node of the
  group: cause a hardware fault now. With `"heartbeat": false` the node's heartbeat stops too. `"cluster"` limits the
  choice to one cluster.
- `"slurm_health": {"cluster": "ml-cluster", "reason": "DaemonDown"}`: an event says that Slurm's accounting daemon is
  unhealthy; without `reason`, that it is healthy again. Only clusters of Slurm with continuous provisioning have it.
- `"clear": true`: first remove all faults set earlier.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError
from werkzeug.exceptions import BadRequest

from embedded_account.hyperpod.faults import ALWAYS, CallError, Faults, Strict
from embedded_account.hyperpod.permissions.required import REQUIRED
from embedded_account.hyperpod.slurm import clusters
from embedded_account.hyperpod.state import HyperPodService


class GroupFault(Strict):
    """A fault on the next `times` nodes of a group."""

    group: str
    times: PositiveInt = ALWAYS


class NodeFault(Strict):
    """A hardware fault on one running node; "" matches any cluster, group or instance."""

    cluster: str = ""
    group: str = ""
    instance: str = ""
    reason: str = "NvidiaGpuXidError_74"
    heartbeat: bool = True


class SlurmHealthFault(Strict):
    """The health of slurmdbd on a cluster's controller; no reason means healthy."""

    cluster: str
    reason: Literal["DaemonDown", "DaemonDisabled", "DbUnreachable"] | None = None


ImageVersion = Literal["UpToDate", "UpdateAvailable", "SecurityUpdateRequired", "EndOfLife"]


def _spelled_out(value: Any) -> Any:
    return {"error": value} if isinstance(value, str) else value


_CallError = Annotated[CallError | None, BeforeValidator(_spelled_out)]


class FaultRequest(Strict):
    """The body of the faults route; the module's docstring describes its keys."""

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
    image_version: dict[str, ImageVersion] = Field(default_factory=dict)
    fail_node: NodeFault | None = None
    slurm_health: SlurmHealthFault | None = None
    clear: bool = False

    def calls(self) -> dict[str, CallError | None]:
        """Return the errors to inject by API call, with the short forms expanded."""
        short = {"create": "CreateCluster", "update": "UpdateCluster", "delete": "DeleteCluster"}
        given = {call: getattr(self, name) for name, call in short.items() if name in self.model_fields_set}
        return self.errors | given


def apply(hyperpod: HyperPodService, body: Mapping[str, Any]) -> dict[str, Any]:
    """Set faults in the simulator; return the ids of the failed nodes as `{"failed_nodes": […]}`.

    Raises:
        BadRequest: The body is invalid, and no fault was set; or `fail_node` matches no running node.
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
        for group, version in request.image_version.items():
            _age(hyperpod, group, version)
        if request.slurm_health:
            _tell_slurm_health(hyperpod, request.slurm_health)
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
        raise BadRequest(
            f"errors: {', '.join(unknown)} is invalid: not a simulated API call. Allowed: {', '.join(REQUIRED)}"
        )
    return request


def _age(hyperpod: HyperPodService, name: str, version: str) -> None:
    found = [cluster.groups[name] for cluster in hyperpod.world.clusters.values() if name in cluster.groups]
    if not found:
        raise BadRequest(f"image_version: {name!r} is invalid: no such group. Allowed: an instance group of a cluster")
    for group in found:
        group.image_version = version


def _merge(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value


def _tell_slurm_health(hyperpod: HyperPodService, wanted: SlurmHealthFault) -> None:
    cluster = hyperpod.world.clusters.get(wanted.cluster)
    if cluster is None or not clusters.has_health_events(cluster):
        raise BadRequest(
            f"slurm_health: {wanted.cluster!r} is invalid: it tells no health of Slurm. Allowed: a cluster of Slurm "
            "with NodeProvisioningMode Continuous"
        )
    health = {"Component": "Slurmdbd", "Status": "Unhealthy" if wanted.reason else "Healthy"}
    hyperpod.world.event(
        cluster,
        f"Slurm component Slurmdbd is {health['Status'].lower()}.",
        level="Warn" if wanted.reason else "Info",
        metadata={"SlurmHealth": health | ({"Reason": wanted.reason} if wanted.reason else {})},
    )


def _fail_node(hyperpod: HyperPodService, wanted: NodeFault) -> str:
    for cluster in hyperpod.world.clusters.values():
        if wanted.cluster not in {"", cluster.name}:
            continue
        node = hyperpod.nodes.running_node(cluster, wanted.group, wanted.instance)
        if node:
            hyperpod.nodes.hardware_fault(cluster, node, wanted.reason, heartbeat=wanted.heartbeat)
            return node.instance_id
    raise BadRequest(f"fail_node: {wanted!r} is invalid: no running node matches. Allowed: one without a fault")
