"""Rules of what Ray's pods ask of their nodes."""

from collections import defaultdict
from collections.abc import Iterator

from config.capacity import (
    AUTOSCALER_CPU_MILLIS,
    AUTOSCALER_MEMORY_MIB,
    Resources,
    TooSmall,
    allocatable,
    whole_node_pod,
)
from config.daemonsets import daemonsets_on, system_pods
from config.model import Environment, InstanceGroup, RayCluster, RayHead, RayWorkers
from config.rules.rule import error, warning
from config.rules.walk import by_name, clusters, groups, heads, ray_pods, workers


def _left(group: InstanceGroup) -> Resources | None:
    """What a node offers beside its DaemonSets, or None where its type is too small for any pod."""
    try:
        node = allocatable(group.type, group.threads_per_core)
    except TooSmall:
        return None
    daemonsets = daemonsets_on(group.type)
    return Resources(
        cpu_millis=max(0, node.cpu_millis - sum(each.cpu_millis for each in daemonsets)),
        memory_mib=max(0, node.memory_mib - sum(each.memory_mib for each in daemonsets)),
        accelerators=node.accelerators,
        efa=node.efa,
    )


def _beside_the_head(cluster: RayCluster) -> tuple[int, int]:
    """CPU in millicores and memory in MiB of the autoscaler's container in the head pod."""
    return (AUTOSCALER_CPU_MILLIS, AUTOSCALER_MEMORY_MIB) if cluster.autoscaling else (0, 0)


@error("V13")
def requests_fit(environment: Environment) -> Iterator[tuple[str, str]]:
    """A pod that asks for more than any node has waits for ever (data-on-eks #433, kuberay #3079)."""
    known = by_name(environment)
    for place, cluster in clusters(environment):
        pods: list[tuple[str, RayHead | RayWorkers, int, int]] = [
            (f"{place}.head", cluster.head, *_beside_the_head(cluster))
        ]
        pods += [(f"{place}.workers.{n}", each, 0, 0) for n, each in enumerate(cluster.workers)]
        for key, pod, other_cpu, other_memory in pods:
            if group := known.get(pod.instance_group):
                yield from _excess(key, pod, group, other_cpu, other_memory)


def _excess(
    key: str, pod: RayHead | RayWorkers, group: InstanceGroup, other_cpu: int, other_memory: int
) -> Iterator[tuple[str, str]]:
    left = _left(group)
    if left is None or (isinstance(pod, RayWorkers) and _too_small(pod, group)):
        yield f"{key}.instance_group", f"{group.name}: {group.instance_type} has no room for a Ray pod"
        return
    asked = {
        "cpu": (pod.cpu, max(0, left.cpu_millis - other_cpu) // 1000),
        "memory_gib": (pod.memory_gib, max(0, left.memory_mib - other_memory) // 1024),
    }
    if isinstance(pod, RayWorkers):
        asked |= {"accelerators": (pod.accelerators, left.accelerators), "efa": (pod.efa, left.efa)}
    for name, (amount, most) in asked.items():
        if amount is not None and amount > most:
            kind = f"{group.instance_type} with threads_per_core {group.threads_per_core}"
            yield f"{key}.{name}", f"{amount}; allowed: at most {most}, what a node of {kind} can give"


def _too_small(pod: RayWorkers, group: InstanceGroup) -> bool:
    if pod.cpu is not None and pod.memory_gib is not None:
        return False
    try:
        whole_node_pod(group.type, group.threads_per_core)
    except TooSmall:
        return True
    return False


@error("V52")
def head_size(environment: Environment) -> Iterator[tuple[str, str]]:
    """A head with less loses its probes under load (aws-samples' 1 CPU was; kuberay #2353, #3468)."""
    for key, head in heads(environment):
        for name, size, least in (("cpu", head.cpu, 2), ("memory_gib", head.memory_gib, 8)):
            if size < least:
                yield f"{key}.{name}", f"{size}; allowed: {least} and more"


@error("V53")
def workers_have_nodes(environment: Environment) -> Iterator[tuple[str, str]]:
    """Workers keep apart from each other, one to a node: the others would wait for ever.

    `max_replicas` may be more: the instance group can grow with it.
    """
    nodes = {group.name: group.count for _, group in groups(environment)}
    together: dict[str, int] = defaultdict(int)
    for key, group in workers(environment):
        name = group.instance_group
        together[name] += group.replicas
        if nodes.get(name) and group.replicas and together[name] > nodes[name]:
            yield (
                f"{key}.replicas",
                f"{group.replicas}, with which {together[name]} workers are on {name}; "
                f"allowed: {nodes[name]} together, one on each of its nodes",
            )


@warning("V54")
def groups_without_nodes(environment: Environment) -> Iterator[tuple[str, str]]:
    """A group may be parked at 0 nodes; its Ray pods then wait until it grows."""
    used = {pod.instance_group for _, pod in ray_pods(environment)}
    for key, group in groups(environment):
        if group.count == 0 and group.name in used:
            yield f"{key}.count", "0 nodes: the Ray pods on this group wait until it has some"


@error("V55")
def heads_have_nodes(environment: Environment) -> Iterator[tuple[str, str]]:
    """Beside a worker that has its node to itself there is no place for a head."""
    known, on = by_name(environment), defaultdict(list)
    for place, cluster in clusters(environment):
        cpu, memory = _beside_the_head(cluster)
        sizes = max(1, 1000 * cluster.head.cpu + cpu), max(1, 1024 * cluster.head.memory_gib + memory)
        on[cluster.head.instance_group].append((f"{place}.head.instance_group", *sizes))
    for name, placed in on.items():
        left = _left(known[name]) if name in known else None
        if left is None or known[name].count == 0:
            continue
        on_it = [group for _, group in workers(environment) if group.instance_group == name]
        nodes = max(0, known[name].count - sum(w.replicas for w in on_it if not (w.cpu and w.memory_gib)))
        each = min(
            left.cpu_millis // max(cpu for _, cpu, _ in placed), left.memory_mib // max(memory for *_, memory in placed)
        )
        if each and len(placed) > nodes * each:
            message = (
                f"{name} has room for {nodes * each} heads beside workers that take whole nodes, not {len(placed)}"
            )
            yield placed[-1][0], message


@error("V12")
def pods_per_node(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod nodes have one network interface, whose addresses limit the pods; DaemonSets and add-ons count too.

    AWS docs: sagemaker-hyperpod-eks-prerequisites; awslabs/ai-on-sagemaker-hyperpod #142.
    """
    known = by_name(environment)
    for key, group in groups(environment):
        if group.name not in known or group.count == 0:
            continue
        on_it = [head for _, head in heads(environment) if head.instance_group == group.name]
        hosts_workers = any(each.instance_group == group.name for _, each in workers(environment))
        ray = -(-len(on_it) // group.count) + hosts_workers
        others = system_pods(group.type)
        if ray and ray + others > group.type.pod_cap:
            yield (
                f"{key}.instance_type",
                f"{ray} Ray pods and up to {others} others on a node; "
                f"allowed: {group.type.pod_cap} pods on {group.instance_type}",
            )


@warning("V15")
def head_beside_accelerators(environment: Environment) -> Iterator[tuple[str, str]]:
    """Faults of accelerators drain and replace their nodes, and with the head every job ends (kuberay #2153)."""
    known = by_name(environment)
    for key, head in heads(environment):
        group = known.get(head.instance_group)
        if group and group.type.accelerated:
            message = f"{group.name} has accelerators, whose faults reach the head; a group without is safer"
            yield f"{key}.instance_group", message


@warning("V56")
def head_on_one_node(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod replaces no CPU node by itself (AWS docs: sagemaker-hyperpod-eks-prerequisites)."""
    known = by_name(environment)
    for key, head in heads(environment):
        group = known.get(head.instance_group)
        if group and group.count == 1 and not group.type.accelerated:
            message = f"{group.name} has one node, which HyperPod does not replace by itself: its loss needs a person"
            yield f"{key}.instance_group", message
