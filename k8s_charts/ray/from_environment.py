"""Convert an environment's RayClusters to those of the charts: places, resources and what their pods share."""

from dataclasses import dataclass, replace

from config import EksEnvironment, Environment, naming
from config.facts import hyperpod_ray, tokens, versions
from config.facts.capacity import NodeResources, whole_node_pod
from config.model import MANAGED, RayWorkers
from config.model import RayCluster as RayClusterConfig
from k8s_charts.ray.cluster import HeadPod, RayClusterSpec, WorkerGroup
from k8s_charts.ray.pods import Common, Placement
from k8s_charts.ray.priority_class import PriorityClass
from k8s_charts.shared.names import MEMORY_TIER, MEMORY_TIER_VARIABLE


def ray_cluster(environment: EksEnvironment, cluster: RayClusterConfig, image: str) -> RayClusterSpec:
    """Return the environment's RayCluster, whose pods run `image`."""
    head = cluster.head
    priority = priority_class(environment, cluster)
    auth = _auth_options(environment, cluster)
    env = {
        **versions.as_before(environment.ray_version),
        **_memory_tier(environment),
        **_tracking(environment),
        **cluster.env,
    }
    # KubeRay sets these in each container that speaks to the head, also in the autoscaler's.
    kuberays = tokens.VARIABLES if auth else frozenset()
    return RayClusterSpec(
        name=cluster.name,
        namespace=environment.ray.namespace,
        ray_version=environment.ray_version,
        pods=Common(
            image=image,
            claim=environment.fsx.claim,
            mount_path=environment.fsx.mount_path,
            env={name: value for name, value in env.items() if name not in kuberays},
            secrets=tuple(each for each in cluster.secrets if each.env not in kuberays),
            volumes=cluster.volumes,
            priority_class=priority.name if priority else None,
            node_address=hyperpod_ray.JOB_MONITOR if hyperpod_ray.watches(environment.kuberay_version) else None,
        ),
        head=HeadPod(
            place=_place(environment, head.instance_group, head.node_selector),
            resources=NodeResources(head.cpu * 1000, head.memory_gib * 1024),
        ),
        workers=tuple(_worker_group(environment, workers) for workers in cluster.workers),
        autoscaling=cluster.autoscaling,
        auth_options=auth,
    )


def priority_class(environment: EksEnvironment, cluster: RayClusterConfig) -> PriorityClass | None:
    """Return the priority of the RayCluster's pods, or None if the environment states none."""
    if cluster.priority is None:
        return None
    return PriorityClass(cluster.name, environment.ray.namespace, cluster.priority)


@dataclass(frozen=True)
class HeadToken:
    """The key of a Secret of Ray's namespace with the token that a head wants."""

    secret: str
    key: str


def head_tokens(environment: EksEnvironment) -> dict[str, HeadToken]:
    """Return where the tokens of heads are, by RayCluster."""
    # KubeRay's Secret has the RayCluster's name (ray-operator v1.6.2, reconcileAuthSecret).
    return {
        cluster.name: HeadToken(cluster.token.secret, cluster.token.key)
        if cluster.token
        else HeadToken(cluster.name, tokens.SECRET_KEY)
        for cluster in environment.ray.clusters
        if cluster.wants_token or cluster.token
    }


def token_secrets(environment: EksEnvironment) -> tuple[str, ...]:
    """Return the names of the Secrets with the tokens of the RayClusters' heads."""
    return tuple(sorted({token.secret for token in head_tokens(environment).values()}))


def _auth_options(environment: EksEnvironment, cluster: RayClusterConfig) -> dict[str, str] | None:
    """Return KubeRay's `authOptions` of a RayCluster; None without a token, or if KubeRay cannot give it to the pods.

    Without `secretName` KubeRay makes a token.
    """
    if not cluster.wants_token or not tokens.made_by(environment.kuberay_version):
        return None
    if cluster.token is None:
        return {"mode": "token"}
    # KubeRay takes a Secret's token from this key only.
    takes = cluster.token.key == tokens.SECRET_KEY
    return {"mode": "token", "secretName": cluster.token.secret} if takes else None


def _memory_tier(environment: Environment) -> dict[str, str]:
    """Return the variable by which the training library finds HyperPod's memory tier."""
    return {MEMORY_TIER_VARIABLE: MEMORY_TIER} if environment.hyperpod.tiered_storage else {}


def _tracking(environment: EksEnvironment) -> dict[str, str]:
    """Return the variable in which MLflow's client looks for its server; `sagemaker-mlflow` takes an ARN there."""
    if environment.mlflow is None:
        return {}
    managed = environment.mlflow == MANAGED
    return {"MLFLOW_TRACKING_URI": naming.tracking_server_arn(environment) if managed else environment.mlflow}


def worker_resources(environment: EksEnvironment, workers: RayWorkers) -> NodeResources:
    """Return what one worker pod requests: the stated amounts, and for the others all that a node can give."""
    group = environment.instance_group(workers.instance_group)
    room = whole_node_pod(
        group.type,
        group.threads_per_core,
        environment.node_load,
    )
    return replace(
        room,
        cpu_millis=room.cpu_millis if workers.cpu is None else workers.cpu * 1000,
        memory_mib=room.memory_mib if workers.memory_gib is None else workers.memory_gib * 1024,
        accelerators=room.accelerators if workers.accelerators is None else workers.accelerators,
        efa=room.efa if workers.efa is None else workers.efa,
    )


def _worker_group(environment: EksEnvironment, workers: RayWorkers) -> WorkerGroup:
    return WorkerGroup(
        workers=workers,
        place=_place(environment, workers.instance_group, workers.node_selector),
        resources=worker_resources(environment, workers),
        prefer_deep_checked=bool(environment.instance_group(workers.instance_group).deep_health_checks),
    )


def _place(environment: Environment, instance_group: str, node_selector: dict[str, str]) -> Placement:
    group = environment.instance_group(instance_group)
    return Placement(instance_group, node_selector, group.taints, group.sleep.wake if group.sleep else ())
