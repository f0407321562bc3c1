"""Write a configuration of SSH that reaches each node through Session Manager."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from config import SlurmEnvironment
from ops.nodes.shell import target_of
from ops.slurm.nodes import SlurmInstance


def ssh_config(
    environment: SlurmEnvironment, cluster: Mapping[str, Any], nodes: Sequence[SlurmInstance], user: str
) -> Iterator[str]:
    """Yield the lines: one Host for each node that runs. Its aliases are its name, its instance id and its role.

    The first running node of the controllers, and of the login nodes, has its role as an alias. A replaced node keeps
    its name and address: its recorded host key belongs to its instance id, so that ssh does not refuse the new one.
    """
    yield f"# Nodes of {environment.name}, through Session Manager; written by `ops ssh-config`."
    named = set[str]()
    for node in nodes:
        if node.status != "Running" or not node.name:
            continue
        aliases = [f"{environment.name}-{node.name}", node.instance]
        if node.role in {"controller", "login"} - named:
            named.add(node.role)
            aliases.insert(0, f"{environment.name}-{node.role}")
        target = target_of(cluster, node.group, node.instance)
        session = f"aws ssm start-session --target {target} --region {environment.region}"
        yield from (
            "",
            f"Host {' '.join(aliases)}",
            f"  HostName {node.address or node.name}",
            f"  HostKeyAlias {node.instance}",
            f"  User {user}",
            "  StrictHostKeyChecking accept-new",
            f"  ProxyCommand {session} --document-name AWS-StartSSHSession --parameters portNumber=%p",
        )
