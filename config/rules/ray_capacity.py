"""Rules about the resources that Ray's pods request of their nodes."""

from collections import defaultdict
from collections.abc import Iterator

from config.facts.capacity import (
    AUTOSCALER_CPU_MILLIS,
    AUTOSCALER_MEMORY_MIB,
    NodeResources,
    NodeTooSmallError,
    allocatable,
    whole_node_pod,
)
from config.facts.daemonsets import daemonsets_on, system_pods
from config.model import EksEnvironment, InstanceGroup, RayCluster, RayHead, RayWorkers
from config.rules.parts import LEAST_OF_HEAD, by_name, clusters, groups, heads, lowered, ray_pods, repeated, workers
from config.rules.rule import Violation, error, warning


def _left(environment: EksEnvironment, group: InstanceGroup) -> NodeResources | None:
    """Return what a node offers beside its DaemonSets, or None if its type is too small for any pod."""
    try:
        node = allocatable(group.type, group.threads_per_core)
    except NodeTooSmallError:
        return None
    daemonsets = daemonsets_on(group.type, environment.node_load)
    return NodeResources(
        cpu_millis=max(0, node.cpu_millis - sum(each.cpu_millis for each in daemonsets)),
        memory_mib=max(0, node.memory_mib - sum(each.memory_mib for each in daemonsets)),
        accelerators=node.accelerators,
        efa=node.efa,
    )


def _beside_the_head(cluster: RayCluster) -> tuple[int, int]:
    """Return CPU in millicores and memory in MiB of the autoscaler's container in the head pod."""
    return (AUTOSCALER_CPU_MILLIS, AUTOSCALER_MEMORY_MIB) if cluster.autoscaling else (0, 0)


@error("V13")
def requests_fit(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that each Ray pod fits on a node of its instance group.

    Why: a pod that requests more than any node has stays pending.
    Source: awslabs/data-on-eks #433; ray-project/kuberay #3079.
    Example: ray.clusters.0.head.cpu: 64
    """
    known = by_name(environment)
    for place, cluster in clusters(environment):
        pods: list[tuple[str, RayHead | RayWorkers, tuple[int, int]]] = [
            (f"{place}.head", cluster.head, _beside_the_head(cluster))
        ]
        pods += [(f"{place}.workers.{n}", each, (0, 0)) for n, each in enumerate(cluster.workers)]
        for key, pod, beside in pods:
            if group := known.get(pod.instance_group):
                if isinstance(pod, RayWorkers) and _too_small(environment, pod, group):
                    yield _no_room(key, group)
                else:
                    yield from _excess(key, pod, group, _left(environment, group), beside)


def _excess(
    key: str, pod: RayHead | RayWorkers, group: InstanceGroup, left: NodeResources | None, beside: tuple[int, int]
) -> Iterator[Violation]:
    if left is None:
        yield _no_room(key, group)
        return
    other_cpu, other_memory = beside
    asked = {
        "cpu": (pod.cpu, max(0, left.cpu_millis - other_cpu) // 1000),
        "memory_gib": (pod.memory_gib, max(0, left.memory_mib - other_memory) // 1024),
    }
    if isinstance(pod, RayWorkers):
        asked |= {"accelerators": (pod.accelerators, left.accelerators), "efa": (pod.efa, left.efa)}
    for name, (amount, most) in asked.items():
        if amount is not None and amount > most:
            kind = f"{group.instance_type} with threads_per_core {group.threads_per_core}"
            reason = f"no node of {kind} can offer it to a pod"
            fix = ", or ".join((*lowered(pod, name, most), "choose a larger type"))
            yield Violation(f"{key}.{name}", reason, f"at most {most}", fix)


def _no_room(key: str, group: InstanceGroup) -> Violation:
    reason = f"its type {group.instance_type} has no room for a Ray pod beside the system pods"
    return Violation(f"{key}.instance_group", reason, "groups of a larger type", "choose another group or type")


def _too_small(environment: EksEnvironment, pod: RayWorkers, group: InstanceGroup) -> bool:
    if pod.cpu is not None and pod.memory_gib is not None:
        return False
    try:
        whole_node_pod(
            group.type,
            group.threads_per_core,
            environment.node_load,
        )
    except NodeTooSmallError:
        return True
    return False


@warning("V105")
def idle_accelerators(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of workers that request fewer accelerators than their node has.

    Why: a node takes one worker, so the other accelerators stay idle and cost as much.
    Source: this project, k8s_charts/ray/pods.py.
    Example: ray.clusters.0.workers.0.accelerators: 3
    """
    known = by_name(environment)
    for key, pod in workers(environment):
        group = known.get(pod.instance_group)
        if group and pod.accelerators is not None and pod.accelerators < group.type.accelerators:
            most = group.type.accelerators
            reason = f"a node of {group.instance_type} takes one worker, and {most - pod.accelerators} stay idle"
            fix = f"write {most}, remove the key, or choose a smaller type"
            yield Violation(f"{key}.accelerators", reason, f"{most}, all of the node", fix)


@error("V52")
def head_size(environment: EksEnvironment) -> Iterator[Violation]:
    """Require at least 2 CPUs and 8 GiB for a head.

    Why: the probes of a smaller head fail under load, as with the 1 CPU of aws-samples.
    Source: ray-project/kuberay #2353, #3468.
    Example: ray.clusters.0.head.cpu: 1
    """
    for key, head in heads(environment):
        for name, least in LEAST_OF_HEAD.items():
            if getattr(head, name) < least:
                reason = "the probes of a smaller head fail under load"
                yield Violation(f"{key}.{name}", reason, f"{least} or more", f"write {least}")


@error("V53")
def workers_have_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a node for each worker.

    Why: a node takes one worker, so further workers would stay pending. `max_replicas` may be higher, because the
    instance group can grow.
    Source: this project, k8s_charts/ray/pods.py.
    Example: ray.clusters.0.workers.0.replicas: 5
    """
    if _has_copies(environment):
        return
    nodes = {group.name: group.count for _, group in groups(environment)}
    together: dict[str, int] = defaultdict(int)
    for key, group in workers(environment):
        name = group.instance_group
        together[name] += group.replicas
        if nodes.get(name) and group.replicas and together[name] > nodes[name]:
            yield Violation(
                f"{key}.replicas",
                f"{together[name]} workers need {together[name]} nodes, and {name} has {nodes[name]}",
                f"at most {nodes[name]} workers together",
                f"lower replicas, or raise the count of {name}",
            )


def _has_copies(environment: EksEnvironment) -> bool:
    """Return whether a RayCluster or worker group is listed twice, which another rule refuses."""
    names = [cluster.name for _, cluster in clusters(environment)]
    lists = [names, *([group.name for group in cluster.workers] for _, cluster in clusters(environment))]
    return any(map(repeated, lists))


@warning("V54")
def groups_without_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of an instance group with 0 nodes that Ray's pods need.

    Why: a group may be scaled to 0 nodes for a while; its Ray pods then stay pending. For a head's group this is an
    error (V77) until this warning is accepted.
    Source: SageMaker API reference, ClusterInstanceGroupSpecification: InstanceCount.
    Example: hyperpod.instance_groups.1.count: 0
    """
    parked = _is_reported(environment)
    of_heads = {head.instance_group for _, head in heads(environment)}
    used = {pod.instance_group for _, pod in ray_pods(environment)}
    for key, group in groups(environment):
        if group.count == 0 and group.name in used and (parked or group.name not in of_heads):
            reason = "the Ray pods of this group stay pending until it has nodes"
            yield Violation(
                f"{key}.count", reason, "1 or more", "raise count, or accept the warning while the group has no nodes"
            )


@error("V77")
def heads_without_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a node in the group of a head, unless V54 is accepted.

    Why: without its head a RayCluster accepts no job, and its other nodes cost money without use.
    Source: Ray docs, Ray cluster key concepts (head node).
    Example: hyperpod.instance_groups.0.count: 0
    """
    if _is_reported(environment):
        return
    of_heads = {head.instance_group for _, head in heads(environment)}
    for key, group in groups(environment):
        if group.count == 0 and group.name in of_heads:
            yield Violation(
                f"{key}.count",
                "a head runs on this group, and without a head a RayCluster accepts no job",
                "1 or more, or 0 with accepted_warnings: {V54: REASON}",
                "write count: 1, or accept V54 with a reason",
            )


def _is_reported(environment: EksEnvironment) -> bool:
    return groups_without_nodes.id in environment.accepted_warnings


@error("V55")
def heads_have_nodes(environment: EksEnvironment) -> Iterator[Violation]:
    """Require room for each head beside workers that use whole nodes.

    Why: a worker without stated sizes uses its whole node, and a head on that node would stay pending.
    Source: this project, config/facts/capacity.py.
    Example: ray.clusters.0.head.instance_group: worker-group-1
    """
    if _has_copies(environment):
        return
    known, on = by_name(environment), defaultdict(list)
    for place, cluster in clusters(environment):
        cpu, memory = _beside_the_head(cluster)
        sizes = max(1, 1000 * cluster.head.cpu + cpu), max(1, 1024 * cluster.head.memory_gib + memory)
        on[cluster.head.instance_group].append((f"{place}.head.instance_group", *sizes))
    for name, placed in on.items():
        left = _left(environment, known[name]) if name in known else None
        if left is None or known[name].count == 0:
            continue
        on_it = [group for _, group in workers(environment) if group.instance_group == name]
        nodes = max(0, known[name].count - sum(w.replicas for w in on_it if not (w.cpu and w.memory_gib)))
        each = min(
            left.cpu_millis // max(cpu for _, cpu, _ in placed), left.memory_mib // max(memory for *_, memory in placed)
        )
        if each and len(placed) > nodes * each:
            yield Violation(
                placed[-1][0],
                f"workers use whole nodes of the group, which leaves room for {nodes * each} of {len(placed)} heads",
                f"at most {nodes * each} heads on {name}",
                f"raise the count of {name}, or put the head on another group",
            )


@error("V12")
def pods_per_node(environment: EksEnvironment) -> Iterator[Violation]:
    """Require enough addresses on each node for its pods.

    Why: HyperPod nodes have one network interface, whose addresses limit the pods; DaemonSets and add-ons count too.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites; awslabs/ai-on-sagemaker-hyperpod #142.
    Example: hyperpod.instance_groups.0.type_facts.pod_cap: 8
    """
    known = by_name(environment)
    for key, group in groups(environment):
        if group.name not in known or group.count == 0:
            continue
        on_it = [head for _, head in heads(environment) if head.instance_group == group.name]
        hosts_workers = any(each.instance_group == group.name for _, each in workers(environment))
        ray = -(-len(on_it) // group.count) + hosts_workers
        others = system_pods(group.type, environment.node_load)
        if ray and ray + others > group.type.pod_cap:
            yield Violation(
                f"{key}.instance_type",
                f"a node gets {ray} Ray pods and up to {others} others",
                f"types with addresses for {ray + others} pods; {group.instance_type} has {group.type.pod_cap}",
                "choose a larger type, or more nodes",
            )


@warning("V15")
def head_beside_accelerators(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a head on nodes with accelerators.

    Why: faults of accelerators drain and replace their nodes, and every job ends with its head.
    Source: ray-project/kuberay #2153.
    Example: ray.clusters.0.head.instance_group: spare
    """
    known = by_name(environment)
    for key, head in heads(environment):
        group = known.get(head.instance_group)
        if group and group.type.accelerated:
            reason = "it has accelerators, and their faults would end the head"
            fix = "put the head on a group without accelerators"
            yield Violation(f"{key}.instance_group", reason, "groups without accelerators", fix)


@warning("V56")
def head_on_one_node(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of a head on a group of one CPU node.

    Why: HyperPod does not replace CPU nodes automatically: after a loss a person must act.
    Source: AWS docs, sagemaker-hyperpod-eks-prerequisites.
    Example: hyperpod.instance_groups.0.count: 1
    """
    known = by_name(environment)
    for key, head in heads(environment):
        group = known.get(head.instance_group)
        if group and group.count == 1 and not group.type.accelerated:
            reason = "it has one node, which HyperPod does not replace automatically"
            yield Violation(
                f"{key}.instance_group", reason, "groups of two or more nodes", f"raise the count of {group.name}"
            )
