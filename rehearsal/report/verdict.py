"""What the rehearsal ends with: what was real, what was simulated, what is left and why."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

REAL: Final = (
    "CDK CLI and synthesis, templates and assets",
    "CloudFormation's protocol: change sets, order, events, rollback, exports, custom resources",
    "Lambda code of every custom resource, CDK's own included (under this Python and Node, not Lambda's)",
    "Kubernetes: etcd, API server, controllers, scheduler; EKS tokens and access entries",
    "KubeRay operator (module v1.2.1; its RayCluster code is 1.2.0's), under its own ServiceAccount",
)
SIMULATED: Final = (
    "AWS services behind their APIs, HyperPod's nodes, health checks and timing",
    "the CDK CLI's pause between two looks at CloudFormation: a quarter of a second, not five",
    "Lambda's sandboxes: local processes, memory not limited; a layer's AWS CLI is loaded once and forked per call",
    "kubelets (kwok): containers do not run, GPUs, EFA and FSx are not there",
    "the image build: a stand-in within its role reads the context and puts a labelled tag into ECR; no image is made",
    "EKS's add-ons and HyperPod's agents: objects that take pod slots",
    "the FSx CSI driver: nothing is mounted; dynamic file systems by a stand-in within the driver's own role",
    "NetworkPolicies: accepted, not enforced",
    "network paths: routes, endpoints and their security groups are read; no packet flows",
    "IAM's trust: CloudFormation, Lambda, EKS, Step Functions and pods need it; people may assume any role",
    "IAM's rights: checked for HyperPod's calls and the stand-ins' roles; every other role may do everything",
)


@dataclass(frozen=True)
class Leftovers:
    """The inventory after the last `cdk destroy`, sorted by who made what."""

    protected: Sequence[dict[str, Any]]
    background: Sequence[dict[str, Any]]
    bootstrap: Sequence[dict[str, Any]]
    existing: Sequence[dict[str, Any]]
    nobody: Sequence[dict[str, Any]]
    unexpected: Sequence[dict[str, Any]]

    @property
    def clean(self) -> bool:
        """Nothing is left but what is named: protected stacks, CDK's bootstrap, what was there, what AWS keeps."""
        return not self.nobody and not self.unexpected


def sort_leftovers(inventory: Sequence[dict[str, Any]], protected_stacks: Sequence[str]) -> Leftovers:
    """Sort an inventory by its items' `owner`."""
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in inventory:
        owner = item["owner"]
        if owner in ("bootstrap", "existing", "nobody"):
            by[owner].append(item)
        elif owner.startswith("background:"):
            by["background"].append(item)
        else:
            by["protected" if owner in protected_stacks else "other"].append(item)
    return Leftovers(by["protected"], by["background"], by["bootstrap"], by["existing"], by["nobody"], by["other"])


def show(console: Console, leftovers: Leftovers, charts: str) -> None:
    """Print the verdict table."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False, title="Verdict", title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    _section(table, "[green]real[/]", REAL)
    _section(table, "[yellow]simulated[/]", [*SIMULATED, f"Helm charts: {charts}"])
    _section(table, "left: protected stacks", _summary(leftovers.protected))
    _section(table, "left: CDK's bootstrap", _summary(leftovers.bootstrap))
    _section(table, "there before", _summary(leftovers.existing))
    _section(table, "left by AWS itself", _summary(leftovers.background))
    _section(table, "[red]left, unexpected[/]", _summary(leftovers.unexpected))
    style = "red" if leftovers.nobody else "green"
    table.add_row(f"[{style}]resources made by nobody[/]", f"[{style}]{len(leftovers.nobody)}[/]")
    _section(table, "", _summary(leftovers.nobody))
    console.print(table)


def _section(table: Table, title: str, rows: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        table.add_row("" if number else title, row)


def _summary(items: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each type, with the reason when there is one."""
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        grouped[item["type"].removeprefix("AWS::").replace("::", " "), item.get("note") or ""].append(item["id"])
    lines = []
    for (kind, note), names in sorted(grouped.items()):
        shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        lines.append(f"{kind}: {shown}" + (f" ({note})" if note else ""))
    return lines
