"""Name what CloudFormation names, as IAM policies do: `<stack>-<logical id>-<random>`.

A logical id begins with a capital letter, and no name of an environment has one. A pattern with the begin of a logical
id therefore fits no other environment: `rayhp-dev-eks-*` would also fit `rayhp-dev-eks-2-network-…`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from config import Environment, naming

Kind = Literal["alarms", "budgets", "functions", "log groups", "roles", "rules", "topics"]
LOGICAL_IDS: Final[Mapping[Kind, Mapping[str, str]]] = {
    "alarms": {"ray": "Alarms"},
    "budgets": {"hyperpod": "Budget"},
    "functions": {
        "storage": "CustomS3",
        "eks": "ClusterKubectl",
        "hyperpod": "CustomCDK Provider",
        "ray": "FileSystemGuard",
    },
    "log groups": {
        "network": "FlowLogs",
        "storage": "CustomS3",
        "eks": "ClusterKubectl",
        "hyperpod": "CustomCDK GroupCounts Provider",
        "ray": "FileSystemGuard",
    },
    "roles": {
        "network": "FlowLogs",
        "storage": "CustomS3 TrackingServer",
        "eks": "AddOnRole Cluster SystemNodes",
        "hyperpod": "CustomCDK ExecutionRole GroupCounts Provider",
        "platform": "FsxCsi",
        "ray": "Alertmanager ContainerInsights FileSystemGuard Grafana HyperPodObservability ImageBuilder RayRole "
        "Sleeper",
    },
    "rules": {"hyperpod": "Notifications"},
    "topics": {"hyperpod": "Notifications", "ray": "Alerts"},
}
"""How the logical ids begin of what the stacks leave unnamed, by stack; a test compares them with the templates."""
KUBECTL_BARRIER: Final = "ClusterKubectlReadyBarrier"
"""How the logical id of the only parameter begins; its name is `CFN-<logical id>-<random>`, without the stack's."""
NODES_ROLE: Final = "ExecutionRole"
_HASH: Final = 8
"""The letters that CDK adds to a construct's path in a logical id."""
_LONGEST: Final = 64
_RANDOM: Final = 13
_LEAST_KEPT: Final = 24
"""CloudFormation shortens a name of more than 64 characters: it keeps these of the stack's name, or more. The random
end has 12 or 13 characters."""


def names(environment: Environment, kind: Kind) -> Iterator[str]:
    """Yield patterns of the names that CloudFormation chooses for the environment's resources of a kind."""
    for part, begins in LOGICAL_IDS[kind].items():
        if part in environment.stacks:
            stack = naming.stack(environment, part)
            kept = stack if len(stack) <= _LEAST_KEPT else f"{stack[:_LEAST_KEPT]}*"
            yield from (f"{kept}-{begin}*" for begin in begins.split())


def nodes_role(environment: Environment) -> list[str]:
    """Return patterns of the name of the nodes' role: one for each length to which CloudFormation can cut the stack's.

    This role is passed on, so no pattern may end within the stack's name.
    """
    stack = naming.stack(environment, "hyperpod")
    most = _LONGEST - _RANDOM - len(NODES_ROLE) - _HASH - len("--") + 1
    lengths = [len(stack)] if len(stack) < most else range(_LEAST_KEPT, min(most, len(stack)) + 1)
    return [f"{stack[:length]}-{NODES_ROLE}*" for length in lengths]
