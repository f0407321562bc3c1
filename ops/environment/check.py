"""Draw the output of `ops check`: what an environment will contain and cost, and its warnings."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from config import EksEnvironment, Environment, SlurmEnvironment
from config.estimates import checkpoints, costs
from config.estimates.addresses import subnet_uses
from config.facts import capacity
from config.findings import Finding, Severity, shown
from config.model import RayWorkers


class _Orchestrated(NamedTuple):
    """What is drawn of the orchestrator's own parts, and the same as data."""

    jobs: Group
    data: dict[str, Any]
    mounted: str
    image: str = ""


def plan(environment: Environment) -> Group:
    """Draw nodes, Ray's pods or Slurm's partitions, subnets, storage and the cost per hour of the environment."""
    own = _orchestrated(environment)
    parts = (_nodes(environment), own.jobs, _subnets(environment), _storage(environment, own), _costs(environment))
    return Group(*(line for part in parts for line in (part, "")))


def data(name: str, environment: Environment | None, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the output as data for programs; `environment` is None if its file has errors."""
    listed = [_finding(each) for each in findings]
    valid = environment is not None and all(each["kind"] != Severity.ERROR.value for each in listed)
    plan = _plan_data(environment) if environment else None
    return {"environment": name, "valid": valid, "plan": plan, "findings": listed}


def _plan_data(environment: Environment) -> dict[str, Any]:
    return {
        "account": environment.account,
        "region": environment.region,
        "instance_groups": [
            {
                "name": group.name,
                "type": group.instance_type,
                "nodes": group.count,
                "zone": group.zone or environment.network.node_zones[0],
            }
            for group in environment.hyperpod.instance_groups
        ],
        **_orchestrated(environment).data,
        "cost": [{"what": line.what, "usd_per_hour": line.usd_per_hour} for line in costs.estimate(environment)],
        "asleep": [{"group": each.group, "usd_per_hour": each.asleep} for each in costs.sleeping(environment)],
    }


def _orchestrated(environment: Environment) -> _Orchestrated:
    match environment:
        case EksEnvironment():
            clusters = [
                {"name": cluster.name, "workers": {group.name: group.replicas for group in cluster.workers}}
                for cluster in environment.ray.clusters
            ]
            image = environment.image.uri or f"built into {environment.image.repository}"
            return _Orchestrated(_ray(environment), {"ray_clusters": clusters}, f"claim {environment.fsx.claim}", image)
        case SlurmEnvironment():
            groups = environment.hyperpod.instance_groups
            slurm = {group.name: group.slurm.model_dump() for group in groups if group.slurm}
            return _Orchestrated(_slurm(environment), {"slurm": slurm}, "mounted")


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "rule": found.rule,
        "kind": found.severity.value,
        "file": shown(found.file) if found.file else "",
        "line": found.line,
        "key": found.key,
        "reason": found.reason,
        "allowed": found.allowed,
        "fix": found.fix,
        "accepted": found.accepted,
    }


def warning_lines(warnings: Iterable[Finding]) -> Iterator[Text]:
    """Yield a line for each warning; accepted warnings come last, dim and with their reason."""
    for warning in sorted(warnings, key=lambda each: bool(each.accepted)):
        if warning.accepted:
            yield Text(f"accepted: {warning}: {warning.accepted}", style="dim")
        else:
            yield Text.assemble(("warning: ", "bold yellow"), str(warning))


def _nodes(environment: Environment) -> Group:
    drawn = _table("instance group", "type", "zone", numbers=("nodes", "vCPUs", "accel.", "EFA", "IPs"))
    notes = []
    for group in environment.hyperpod.instance_groups:
        kind, count = group.type, group.count
        each = (1, kind.vcpus_at(group.threads_per_core), kind.accelerators, kind.efa, kind.ips_per_node)
        zone = group.zone or environment.network.node_zones[0]
        drawn.add_row(group.name, kind.name, zone, *(f"{count * number:,}" for number in each))
        if group.type_facts:
            notes.append(f"{kind.name}: figures from {kind.source}")
        if kind.unverified:
            notes.append(f"{kind.name}: estimated: {', '.join(kind.unverified)}")
    if system := environment.system_nodes:
        drawn.add_row("system nodes", system.instance_type, "each", str(system.count))
    if existing := environment.existing_eks:
        notes.append(f"in the existing EKS cluster {existing.name} with VPC CNI {existing.vpc_cni}")
    return Group(drawn, *map(_note, dict.fromkeys(notes)))


def _ray(environment: EksEnvironment) -> Group:
    drawn = _table("RayCluster", "group", numbers=("pods", "CPU", "GiB", "accel.", "EFA"))
    for cluster in environment.ray.clusters:
        head = cluster.head
        drawn.add_row(cluster.name, "head", "1", str(head.cpu), str(head.memory_gib), "0", "0")
        for workers in cluster.workers:
            pods = str(workers.replicas)
            if cluster.autoscaling:
                pods = f"{workers.min_replicas} to {workers.max_replicas}"
            drawn.add_row(cluster.name, workers.name, pods, *(f"{size:,}" for size in _pod(environment, workers)))
    return Group(drawn, _note("CPU, memory, accelerators (GPUs, Neuron devices) and EFA interfaces of one pod"))


def _slurm(environment: SlurmEnvironment) -> Group:
    drawn = _table("Slurm", "group", "partition", numbers=("nodes",))
    for group in environment.hyperpod.instance_groups:
        if node := group.slurm:
            drawn.add_row(node.node, group.name, node.partition or "", f"{group.count:,}")
    by_api = environment.slurm.configuration == "api"
    return Group(drawn, _note(f"{'HyperPod configures' if by_api else 'the lifecycle scripts configure'} Slurm"))


def _pod(environment: EksEnvironment, workers: RayWorkers) -> tuple[int, int, int, int]:
    group = environment.instance_group(workers.instance_group)
    node = capacity.whole_node_pod(
        group.type,
        group.threads_per_core,
        environment.node_load,
    )
    return (
        workers.cpu or node.cpu_millis // 1000,
        workers.memory_gib or node.memory_mib // 1024,
        node.accelerators if workers.accelerators is None else workers.accelerators,
        node.efa if workers.efa is None else workers.efa,
    )


def _subnets(environment: Environment) -> Group:
    drawn = _table("subnet", "zone", "block", numbers=("addresses used", "of"))
    for use in subnet_uses(environment):
        drawn.add_row("nodes", use.zone, str(use.block), f"{use.used:,}", f"{use.free:,}")
    for zone, block in environment.control_plane_subnets:
        drawn.add_row("EKS's own interfaces", zone, str(block))
    network = environment.network
    if vpc := network.existing:
        return Group(drawn, _note(f"in the existing VPC {vpc.id} ({vpc.cidr})"))
    ways = {"one": "one NAT gateway", "one-per-zone": "a NAT gateway in each zone", "none": "no route to the internet"}
    return Group(drawn, _note(f"in a new VPC, {network.vpc_cidr}; {ways[network.nat_gateways]}"))


def _storage(environment: Environment, own: _Orchestrated) -> Group:
    fsx = environment.fsx
    drawn = _table("data and image" if own.image else "data", "", numbers=())
    if fsx.existing:
        drawn.add_row("FSx for Lustre", f"{fsx.existing.id} (existing)")
    else:
        maker = "created for its claim" if fsx.dynamic else "new"
        size = f"{fsx.capacity_gib:,} GiB, {int(fsx.throughput_mbps):,} MB/s{', EFA' if fsx.efa else ''}"
        drawn.add_row("FSx for Lustre", f"{maker}, {size}; {own.mounted} at {fsx.mount_path}")
    for repository in fsx.data_repositories:
        drawn.add_row("data repository", f"{repository.path} mirrors {repository.prefix}/ of the data bucket")
    if made := checkpoints.estimate(environment):
        drawn.add_row("checkpoints", _checkpoints(made))
    if own.image:
        drawn.add_row("Ray image", own.image)
    return Group(drawn)


def _checkpoints(made: checkpoints.CheckpointEstimate) -> str:
    room = f"{made.most * made.size / 1e9:,.0f} of {made.capacity / 1e9:,.0f} GB for {made.most}"
    if made.seconds is None:
        return f"{made.size / 1e9:,.0f} GB each; {room}"
    minutes = f"{made.seconds / 60:,.1f} of every {made.interval / 60:,.0f} minutes"
    return f"{made.size / 1e9:,.0f} GB each, written in {minutes}; {room}"


def _costs(environment: Environment) -> Group:
    lines = costs.estimate(environment)
    asleep = {each.group: each.asleep for each in costs.sleeping(environment)}
    columns = [[line.usd_per_hour for line in lines]]
    columns += [[asleep.get(line.item, line.usd_per_hour) for line in lines]] if asleep else []
    drawn = _table("cost", numbers=("US$ per hour", *(["asleep"] if asleep else [])))
    for line, *cells in zip(lines, *columns, strict=True):
        drawn.add_row(line.what, *("no price" if usd is None else f"{usd:,.2f}" for usd in cells))
    drawn.add_section()
    totals = [f"{'more than ' if None in usds else ''}{sum(usd or 0 for usd in usds):,.2f}" for usds in columns]
    drawn.add_row("total", *totals, style="bold")
    table = costs.prices()
    note = (
        f"On-demand prices of {table['region']} as of {table['date']}; without traffic and storage of logs and images"
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
