"""`ops check`: what an environment will be, before anything is made."""

from rich.console import Group
from rich.table import Table

from config import Environment, capacity, costs


def plan(environment: Environment) -> Group:
    """Draw nodes, Ray's pods, addresses and cost per hour of the environment."""
    return Group(_nodes(environment), "", _ray(environment), "", _costs(environment))


def _nodes(environment: Environment) -> Table:
    drawn = Table("instance group", "nodes", "type", "GPUs", "EFA", "addresses", box=None, pad_edge=False)
    used = 0
    for group in environment.hyperpod.instance_groups:
        kind, count = group.type, group.count
        used += count * kind.ips_per_node
        numbers = [str(count * each) for each in (kind.gpus, kind.efa, kind.ips_per_node)]
        drawn.add_row(group.name, str(count), kind.name, *numbers)
    subnet = environment.network.node_subnet(0)
    # AWS reserves five addresses of each subnet.
    drawn.caption = f"{used:,} of {subnet.num_addresses - 5:,} addresses of {subnet} ({environment.network.zones[0]})"
    return drawn


def _ray(environment: Environment) -> Table:
    drawn = Table("RayCluster", "group", "pods", "CPU", "memory GiB", "GPU", "EFA", box=None, pad_edge=False)
    for cluster in environment.ray.clusters:
        head = cluster.head
        drawn.add_row(cluster.name, "head", "1", str(head.cpu), str(head.memory_gib), "0", "0")
        for workers in cluster.workers:
            group = environment.instance_group(workers.instance_group)
            pod = capacity.whole_node_pod(group.type, group.threads_per_core)
            sizes = [str(n) for n in (pod.cpu_millis // 1000, pod.memory_mib // 1024, pod.gpus, pod.efa)]
            drawn.add_row(cluster.name, workers.name, str(workers.replicas), *sizes)
    return drawn


def _costs(environment: Environment) -> Table:
    drawn = Table("cost", "US$ per hour", box=None, pad_edge=False)
    lines = costs.estimate(environment)
    for line in lines:
        drawn.add_row(line.what, "no price" if line.usd_per_hour is None else f"{line.usd_per_hour:,.2f}")
    total = sum(line.usd_per_hour or 0 for line in lines)
    drawn.add_row("[bold]together[/]", f"[bold]{total:,.2f}[/]")
    table = costs.prices()
    drawn.caption = f"on-demand prices of {table['region']} as of {table['date']}, without traffic"
    return drawn
