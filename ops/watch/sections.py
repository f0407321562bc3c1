"""Read the parts of a status that `ops wait` does not wait for. Every function raises errors of both APIs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import kubernetes

from config import EksEnvironment, Environment, naming
from config.facts import support as support_of
from ops import hyperpod
from ops.clients import REQUEST_TIMEOUT, CallerAccount, Clients
from ops.jobs.head_api import HeadUnreachableError, heads
from ops.jobs.kind import JobKind
from ops.jobs.run import ExistingRun
from ops.jobs.running import unsupervised
from ops.jobs.runs import Runs
from ops.readiness.outdated_pods import is_suspended, outdated
from ops.readiness.workloads import blocking_reason
from ops.stacks import existing

_GIB: Final = 2**30
# CloudWatch has FSx's figures every minute, a few minutes late (FSx for Lustre user guide, metrics).
_METRIC_MINUTES: Final = 15
_PATIENCE: Final[dict[str, Any]] = {"_request_timeout": REQUEST_TIMEOUT}


def stacks(environment: Environment, account: CallerAccount) -> list[dict[str, str]]:
    """Return the environment's stacks with their states; a stack without a deployment is `not deployed`."""
    found = {stack.name: stack for stack in existing(account.client("cloudformation"), environment)}
    names = [naming.stack(environment, part) for part in naming.STACKS]
    return [
        {
            "name": name,
            "state": found[name].status if name in found else "not deployed",
            "reason": found[name].reason if name in found else "",
        }
        for name in names
    ]


def support(environment: EksEnvironment) -> list[dict[str, Any]]:
    """Return until when the versions that the environment uses are supported, and their known flaws."""
    used = {support_of.KUBERNETES: environment.eks.version, "Ray": environment.ray_version}
    used["KubeRay"] = environment.kuberay_version
    if environment.image.built:
        used["CPython"] = environment.version_set.python
    found = [support_of.versions(component).get(version) for component, version in used.items()]
    return [
        {
            "component": each.component,
            "version": each.version,
            "phase": each.phase,
            "until": str(each.end or ""),
            "flaws": [*each.flaws],
        }
        for each in found
        if each
    ]


def instance_groups(environment: Environment, account: CallerAccount) -> list[dict[str, Any]]:
    """Return the instance groups with counts, capacity and the age of the platform software."""
    cluster = hyperpod.find(account.client("sagemaker"), environment.hyperpod.cluster_name)
    return [
        {
            "name": group["InstanceGroupName"],
            "type": _types(group),
            "count": group["CurrentCount"],
            "target": group["TargetCount"],
            "state": group.get("Status", ""),
            "capacity": _capacity(group),
            "software": group.get("ImageVersionStatus", ""),
            "software_update": group.get("SoftwareUpdateStatus", ""),
        }
        for group in (cluster["InstanceGroups"] if cluster else ())
    ]


def _types(group: dict[str, Any]) -> str:
    several = group.get("InstanceRequirements", {}).get("CurrentInstanceTypes", [])
    return str(group.get("InstanceType") or ", ".join(several))


def _capacity(group: dict[str, Any]) -> str:
    if "TrainingPlanArn" in group:
        state = group.get("TrainingPlanStatus", "")
        return f"training plan {group['TrainingPlanArn'].rpartition('/')[2]} {state}".rstrip()
    return "spot" if "Spot" in group.get("CapacityRequirements", {}) else "on demand"


def ray_clusters(environment: EksEnvironment, clients: Clients) -> list[dict[str, Any]]:
    """Return the RayClusters of Ray's namespace with their state, workers, head pod and outdated pods."""
    namespace = environment.ray.namespace
    custom = kubernetes.client.CustomObjectsApi(clients.kubernetes)
    listed = custom.list_namespaced_custom_object("ray.io", "v1", namespace, "rayclusters", **_PATIENCE)["items"]
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    return [_ray_cluster(core, namespace, cluster) for cluster in listed]


def _ray_cluster(core: kubernetes.client.CoreV1Api, namespace: str, cluster: dict[str, Any]) -> dict[str, Any]:
    name, status = cluster["metadata"]["name"], cluster.get("status", {})
    pods = core.list_namespaced_pod(namespace, label_selector=f"ray.io/cluster={name}", **_PATIENCE).items
    groups = cluster.get("spec", {}).get("workerGroupSpecs", [])
    return {
        "name": name,
        "state": "suspended" if is_suspended(cluster) else status.get("state") or "starting",
        "workers": status.get("availableWorkerReplicas", 0),
        "wanted": status.get("desiredWorkerReplicas", sum(int(group.get("replicas", 0)) for group in groups)),
        "head": next(iter(heads(core, namespace, name)), ""),
        "image": _image(cluster),
        "outdated": list(outdated(cluster, pods).phrases()),
    }


def _image(cluster: dict[str, Any]) -> str:
    """Return the image that a new head gets; the tag of a built image is the hash of its build context."""
    containers = cluster.get("spec", {}).get("headGroupSpec", {}).get("template", {}).get("spec", {}).get("containers")
    return str(containers[0].get("image", "")) if containers else ""


def pending_pods(environment: EksEnvironment, clients: Clients) -> list[dict[str, str]]:
    """Return the pods of Ray's namespace that do not run, each with the reason."""
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    pods = core.list_namespaced_pod(environment.ray.namespace, **_PATIENCE).items
    return [
        {"pod": pod.metadata.name, "reason": blocking_reason(pod) or "starting"}
        for pod in pods
        if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp
    ]


def jobs(environment: EksEnvironment, clients: Clients) -> list[dict[str, Any]]:
    """Return runs that have not ended, of every kind, and what else the heads run; or why a head is silent."""
    namespace = environment.ray.namespace
    runs = [run for run in Runs(clients.kubernetes, namespace).all() if not run.finished]
    found = [{"name": run.name, "ray_cluster": run.cluster, "state": run.phase} for run in runs]
    for cluster in environment.ray.clusters:
        found += _others(clients, namespace, cluster.name, runs)
    return found


def _others(clients: Clients, namespace: str, cluster: str, runs: list[ExistingRun]) -> Iterator[dict[str, Any]]:
    supervised = [run for run in runs if run.cluster == cluster and run.kind is JobKind.SUPERVISED]
    listed = {f"PyTorchJob {run.name}" for run in runs}
    try:
        names = unsupervised(clients.kubernetes, namespace, cluster, supervised)
    except HeadUnreachableError as error:
        # Its fix is the command that shows this.
        reason, _, _ = str(error).partition(". Fix: ")
        yield {"name": "", "ray_cluster": cluster, "state": f"unknown: {reason}"}
        return
    for name in names:
        if name not in listed:
            yield {"name": name, "ray_cluster": cluster, "state": "running"}


def file_system(environment: EksEnvironment, account: CallerAccount, clients: Clients) -> dict[str, Any]:
    """Return the file system behind Ray's claim: its state, capacity and, if CloudWatch knows it, use."""
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    claim = core.read_namespaced_persistent_volume_claim(environment.fsx.claim, environment.ray.namespace, **_PATIENCE)
    if claim.status.phase != "Bound":
        return {"id": "", "state": f"its claim is {claim.status.phase}", "capacity_gib": None, "used_gib": None}
    volume = core.read_persistent_volume(claim.spec.volume_name, **_PATIENCE)
    file_system_id = volume.spec.csi.volume_handle
    [found] = account.client("fsx").describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
    capacity = int(found["StorageCapacity"])
    free = _free_bytes(account, file_system_id)
    used = None if free is None else round(capacity - free / _GIB)
    return {"id": file_system_id, "state": found["Lifecycle"], "capacity_gib": capacity, "used_gib": used}


def _free_bytes(account: CallerAccount, file_system_id: str) -> float | None:
    """Return the newest FreeDataStorageCapacity; its Sum is that of the whole file system."""
    now = datetime.now(UTC)
    points = account.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/FSx",
        MetricName="FreeDataStorageCapacity",
        Dimensions=[{"Name": "FileSystemId", "Value": file_system_id}],
        StartTime=now - timedelta(minutes=_METRIC_MINUTES),
        EndTime=now,
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    newest = max(points, key=lambda point: point["Timestamp"], default=None)
    return float(newest["Sum"]) if newest else None
