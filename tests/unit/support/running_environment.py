"""The answers of a ready environment `dev`, from which tests remove parts."""

from typing import Any

from config.naming import STACKS
from tests.unit.support.fake_apis import Apis

JOBS = "/apis/batch/v1/namespaces/image-build/jobs"
BUILD_PODS = "/api/v1/namespaces/image-build/pods"
BUILD_LOG = "/bucket/image-build/tag.log"
DIRECTORY_JOBS = "/apis/batch/v1/namespaces/ray-volume/jobs"
DIRECTORY_PODS = "/api/v1/namespaces/ray-volume/pods"
NODES = "/api/v1/nodes"
CLAIM = "/api/v1/namespaces/ray/persistentvolumeclaims/fsx-claim"
RAY_CLUSTER = "/apis/ray.io/v1/namespaces/ray/rayclusters/rayml"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/ray/rayclusters"
PODS = "/api/v1/namespaces/ray/pods"
ALL_PODS = "/api/v1/pods"
VOLUME = "/api/v1/persistentvolumes/volume"
RUN_JOBS = "/apis/batch/v1/namespaces/ray/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray/leases"
RAY_JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"
REAPER = "/apis/apps/v1/namespaces/kuberay/deployments/ray-reaper"
REAPER_PODS = "/api/v1/namespaces/kuberay/pods"
EVENTS = "/api/v1/namespaces/ray/events"
HEAD, WORKERS = "head-group", "worker-group-1"
COUNTS = {HEAD: 1, WORKERS: 4}


def make_ready(apis: Apis) -> None:
    """Replace all answers by those of a running `dev`."""
    apis.aws.clear()
    apis.kubernetes.clear()
    apis.tokens.clear()
    apis.changes.clear()
    apis.account = "111122223333"
    apis.aws["DescribeEksCluster"] = {
        "cluster": {
            "name": "rayhp-dev",
            "status": "ACTIVE",
            "endpoint": apis.endpoint,
            "certificateAuthority": {"data": ""},
        }
    }
    apis.aws["DescribeStacks"] = stacks(*STACKS)
    apis.aws["GetMetricStatistics"] = {"Datapoints": []}
    apis.aws["DescribeFileSystems"] = {
        "FileSystems": [{"FileSystemId": "fs-0123456789abcdef0", "StorageCapacity": 1200, "Lifecycle": "AVAILABLE"}]
    }
    apis.aws["DescribeCluster"] = {
        "ClusterArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl",
        "ClusterName": "ml-cluster",
        "ClusterStatus": "InService",
        "NodeProvisioningMode": "Continuous",
        "InstanceGroups": [group(name, count) for name, count in COUNTS.items()],
    }
    apis.aws["ListClusterNodes"] = {
        "ClusterNodeSummaries": [node(name) for name, count in COUNTS.items() for _ in range(count)]
    }
    # One answer for each group's query, the head's first. The fake ignores the selector.
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(*[usable_node()] * 4)]
    apis.kubernetes[JOBS] = {"items": [job(succeeded=1, conditions=[condition("Complete")])]}
    apis.aws["DescribeImages"] = {"imageDetails": [{"imageTags": ["tag"]}]}
    apis.kubernetes[BUILD_PODS] = {"items": []}
    done = job("ray-directory-1", succeeded=1, conditions=[condition("Complete")])
    apis.kubernetes[DIRECTORY_JOBS] = {"items": [done]}
    apis.kubernetes[DIRECTORY_PODS] = {"items": []}
    apis.kubernetes[CLAIM] = {
        "metadata": {"name": "fsx-claim"},
        "spec": {"volumeName": "volume"},
        "status": {"phase": "Bound"},
    }
    apis.kubernetes[VOLUME] = {
        "metadata": {"name": "volume"},
        "spec": {"csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0123456789abcdef0"}},
    }
    apis.kubernetes[RAY_CLUSTER] = {"status": {"state": "ready", "availableWorkerReplicas": 4}}
    apis.kubernetes[RAY_CLUSTERS] = {"items": [{"metadata": {"name": "rayml"}, **apis.kubernetes[RAY_CLUSTER]}]}
    apis.kubernetes[ALL_PODS] = {"items": []}
    for kind in (RUN_JOBS, LEASES, RAY_JOBS):
        apis.kubernetes[kind] = {"items": []}
    apis.kubernetes[PODS] = {"items": []}
    apis.kubernetes[REAPER] = deployment(available=2)
    apis.kubernetes[EVENTS] = {"items": []}


def stacks(*parts: str, state: str = "CREATE_COMPLETE") -> str:
    """Return DescribeStacks's answer for these parts of `dev`, all in the same state."""
    members = "".join(
        f"<member><StackName>rayhp-dev-{part}</StackName><StackId>arn:rayhp-dev-{part}</StackId>"
        f"<StackStatus>{state}</StackStatus>"
        "<CreationTime>2026-11-01T10:00:00Z</CreationTime></member>"
        for part in parts
    )
    result = f"<DescribeStacksResult><Stacks>{members}</Stacks></DescribeStacksResult>"
    return (
        f'<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">{result}'
        "</DescribeStacksResponse>"
    )


def group(name: str, current: int, target: int | None = None) -> dict[str, Any]:
    """Return an instance group of DescribeCluster."""
    return {"InstanceGroupName": name, "CurrentCount": current, "TargetCount": current if target is None else target}


def node(name: str, status: str = "Running", message: str | None = None) -> dict[str, Any]:
    """Return a node of ListClusterNodes, in instance group `name`."""
    state = {"Status": status} | ({"Message": message} if message else {})
    return {
        "InstanceGroupName": name,
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": "ml.m5.2xlarge",
        "LaunchTime": 1_760_000_000,
        "InstanceStatus": state,
    }


def event(number: int, description: str, level: str = "Info", about: str = "InstanceGroup") -> dict[str, Any]:
    """Return an event of ListClusterEvents; a higher number is newer."""
    return {
        "EventId": f"00000000-0000-0000-0000-{number:012}",
        "EventTime": 1_760_000_000 + number,
        "EventLevel": level,
        "ResourceType": about,
        "Description": description,
    }


def failure(about: str, message: str) -> dict[str, Any]:
    """Return an answer of DescribeClusterEvent."""
    return {"EventDetails": event(1, "") | {"EventDetails": {"EventMetadata": {about: {"FailureMessage": message}}}}}


def nodes(*items: dict[str, Any]) -> dict[str, Any]:
    """Return a list of Kubernetes nodes."""
    return {"items": list(items)}


def usable_node(*, ready: bool = True, health: str | None = "Schedulable", deep: str | None = None) -> dict[str, Any]:
    """Return a Kubernetes node with HyperPod's labels."""
    labels = {"node-health-status": health, "deep-health-check-status": deep}
    return {
        "metadata": {
            "name": "hyperpod-i-0123456789abcdef0",
            "labels": {f"sagemaker.amazonaws.com/{key}": value for key, value in labels.items() if value},
        },
        "status": {"conditions": [condition("Ready", status=str(ready))]},
    }


def job(name: str = "ray-image-1", created: str = "2026-11-01T10:00:00Z", **status: Any) -> dict[str, Any]:
    """Return the Job of an image build, or of Ray's directory."""
    env = [{"name": "TAG", "value": "tag"}, {"name": "LOG", "value": "s3://bucket/image-build/tag.log"}]
    pod = {"spec": {"containers": [{"name": "build", "env": env}]}}
    namespace = "ray-volume" if name.startswith("ray-directory") else "image-build"
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"template": pod}, "status": status}


def deployment(available: int, replicas: int = 2) -> dict[str, Any]:
    """Return a Deployment."""
    template: dict[str, Any] = {"spec": {"containers": []}}
    spec = {"replicas": replicas, "selector": {}, "template": template}
    return {"metadata": {"name": "ray-reaper"}, "spec": spec, "status": {"availableReplicas": available}}


def condition(kind: str, status: str = "True", message: str = "") -> dict[str, Any]:
    """Return a condition of a Kubernetes object."""
    return {"type": kind, "status": status, "message": message}
