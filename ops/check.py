"""`ops check`: what an environment will be, before anything is made."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from config import Environment, capacity, costs


def plan(environment: Environment) -> Group:
    """Draw nodes, Ray's pods, addresses and cost per hour of the environment."""
    return Group(_nodes(environment), "", _ray(environment), "", _costs(environment), "")


def _nodes(environment: Environment) -> Group:
    drawn = _table("instance group", "type", numbers=("nodes", "vCPUs", "GPUs", "EFA", "addresses"))
    used = 0
    for group in environment.hyperpod.instance_groups:
        kind, count = group.type, group.count
        used += count * kind.ips_per_node
        each = (1, kind.vcpus_at(group.threads_per_core), kind.gpus, kind.efa, kind.ips_per_node)
        drawn.add_row(group.name, kind.name, *(f"{count * number:,}" for number in each))
    subnet = environment.network.node_subnet(0)
    # AWS reserves five addresses of each subnet.
    free = subnet.num_addresses - 5
    return Group(drawn, _note(f"{used:,} of {free:,} addresses of {subnet} in {environment.network.zones[0]}"))


def _ray(environment: Environment) -> Group:
    drawn = _table("RayCluster", "group", numbers=("pods", "CPU", "GiB", "GPUs", "EFA"))
    for cluster in environment.ray.clusters:
        head = cluster.head
        drawn.add_row(cluster.name, "head", "1", str(head.cpu), str(head.memory_gib), "0", "0")
        for workers in cluster.workers:
            group = environment.instance_group(workers.instance_group)
            pod = capacity.whole_node_pod(group.type, group.threads_per_core)
            sizes = (pod.cpu_millis // 1000, pod.memory_mib // 1024, pod.gpus, pod.efa)
            drawn.add_row(cluster.name, workers.name, str(workers.replicas), *(f"{size:,}" for size in sizes))
    return Group(drawn, _note("CPU, memory, GPUs and EFA interfaces of one pod"))


def _costs(environment: Environment) -> Group:
    drawn = _table("cost", numbers=("US$ per hour",))
    lines = costs.estimate(environment)
    for line in lines:
        drawn.add_row(line.what, "no price" if line.usd_per_hour is None else f"{line.usd_per_hour:,.2f}")
    drawn.add_section()
    total = sum(line.usd_per_hour or 0 for line in lines)
    drawn.add_row("together", f"{total:,.2f}", style="bold")
    table = costs.prices()
    note = (
        f"On-demand prices of {table['region']} as of {table['date']}; traffic and storage of logs and images not in it"
    )
    if environment.region != table["region"]:
        note += f"; {environment.region} has other prices"
    return Group(drawn, _note(note))


def _table(*names: str, numbers: tuple[str, ...]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        drawn.add_column(name, no_wrap=True)
    for name in numbers:
        drawn.add_column(name, justify="right", no_wrap=True)
    return drawn


def _note(text: str) -> Text:
    return Text(text, style="dim")
