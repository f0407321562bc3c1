"""Show the verdict of a rehearsal: what was real, what was simulated, what is left and why.

The screen shows the names, a file the details.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embedded_account.kubernetes.building import binaries

REAL: Final = (
    "CDK CLI and synthesis, templates and assets",
    "Lambda code: that of every custom resource, CDK's own included, under this Python and Node, not Lambda's",
)
SIMULATED: Final = (
    "AWS services: each answers behind its API; so do HyperPod's nodes, health checks and timing",
    "CloudFormation: an engine of this project carries out change sets, order, rollback, exports and custom resources",
    "the CDK CLI's polls: a quarter of a second apart, not five",
    "Lambda's sandboxes: local processes; a layer's AWS CLI is loaded once and forked per call",
    "Kubernetes' pauses: a deleted namespace is emptied after 0.5 s, not 5, a claim bound within 1 s, not 15, new "
    "kinds collected after 3 s, not 30",
    "kubelets (kwok): containers do not run; there are no GPUs, no EFA and no FSx",
    "image build: a stand-in in its role reads the context and puts a labelled tag into ECR; no image is built",
    "EKS: its control plane is started while the network is deployed; add-ons and HyperPod's agents are objects that "
    "take pod slots",
    "FSx CSI driver: nothing is mounted; a stand-in in the driver's role creates dynamic file systems",
    "network paths: routes, endpoints and their security groups are evaluated; no packet is sent",
    "IAM: trust policies of people, CloudFormation, Lambda, EKS, Step Functions and pods are evaluated, and the "
    "permissions of people, functions, state machines, pods, the bootstrap's roles, HyperPod's calls and stand-ins",
)
_OF_AWS: Final = (
    "rights of CloudFormation's execution role: it may do everything",
    "resource policies: only those of KMS keys and buckets are evaluated",
    "Lambda's limit of memory: a function may use more",
    "quotas of HyperPod's nodes: those of rehearsal/run/quotas.yaml; a new account has no node of ml.p and ml.trn",
)
NOT_ENFORCED: Final = ("NetworkPolicies: they are accepted", *_OF_AWS)
SIMULATED_WITH_SLURM: Final = (
    *SIMULATED[:4],
    "nodes: their states, failures and replacements",
    "file systems: nothing is mounted; there are no GPUs, no EFA and no FSx",
    *SIMULATED[9:],
)

NAME: Final = "verdict.txt"
"""The file with the details, in a rehearsal's folder."""
_DETAILS_COLUMNS: Final = 100
_REAL: Final = "[green]real[/]"
_SIMULATED: Final = "[yellow]simulated[/]"
_NOT_ENFORCED: Final = "[yellow]not enforced[/]"
_NOT_RUN: Final = "[red]NOT RUN[/]"

_JOBS_OF_SLURM: Final = (
    "Slurm's jobs: stand-ins for torchrun and for `srun --auto-resume=1`, HyperPod's plugin; Slurm requeues"
)


@dataclass(frozen=True)
class Leftovers:
    """The inventory after the last `cdk destroy`, sorted by owner."""

    protected: Sequence[dict[str, Any]]
    background: Sequence[dict[str, Any]]
    bootstrap: Sequence[dict[str, Any]]
    existing: Sequence[dict[str, Any]]
    nobody: Sequence[dict[str, Any]]
    unexpected: Sequence[dict[str, Any]]

    @property
    def clean(self) -> bool:
        """Return whether only protected stacks, bootstrap, existing and AWS's own resources are left."""
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


@dataclass(frozen=True)
class EksSeen:
    """What a rehearsal with EKS ran: the chosen versions, and the version that its API server answered."""

    kuberay: str
    kubernetes: str
    """The environment's `eks.version`."""
    ran: str
    """Such as `v1.34.4`."""
    charts: str
    """Which charts were installed."""


def real_with_eks(seen: EksSeen) -> list[str]:
    """Return what is real in such a rehearsal, and which builds of Kubernetes and KubeRay ran."""
    module = binaries.kuberay_version(seen.kuberay)
    same = module == f"v{seen.kuberay}"
    code = "" if same else f"its RayCluster code is {seen.kuberay}'s; "
    return [
        *REAL,
        f"Kubernetes {seen.ran}: etcd, API server, controllers, scheduler; EKS tokens and access entries",
        f"KubeRay operator {module}: {code}it runs under its own ServiceAccount",
    ]


def simulated_with_eks(seen: EksSeen) -> list[str]:
    """Return what is simulated in such a rehearsal."""
    nearest = f"Kubernetes {seen.kubernetes}: it cannot be built here; {seen.ran} ran, the nearest version that can"
    instead = [] if seen.ran.startswith(f"v{seen.kubernetes}.") else [nearest]
    return [*instead, *SIMULATED, f"Helm charts: {seen.charts}"]


@dataclass(frozen=True)
class SlurmSeen:
    """What a rehearsal with Slurm ran: the version of real Slurm or None, and whether nodes ran their scripts."""

    version: str | None
    scripts: bool
    why_not: str = ""
    """Why real Slurm did not run."""


def real_with_slurm(seen: SlurmSeen) -> list[str]:
    """Return what is real in a rehearsal with Slurm."""
    scripts = (
        "lifecycle scripts: this project's, from the lifecycle bucket, with bash on a folder for each node; stand-ins "
        "for mount, systemctl, apt, pip, accounts, munge and scontrol, whose words are checked"
    )
    ran = f"Slurm {seen.version}: jobs, a lost node, a grown group, in namespaces beside the account's nodes; one user"
    return [*REAL, *([scripts] if seen.scripts else []), *([ran] if seen.version else [])]


def simulated_with_slurm(seen: SlurmSeen) -> list[str]:
    """Return what is simulated in such a rehearsal."""
    scripts = "lifecycle scripts: not this project's, so no lifecycle script runs"
    return [*SIMULATED_WITH_SLURM, *([_JOBS_OF_SLURM] if seen.version else []), *([] if seen.scripts else [scripts])]


def not_run(seen: SlurmSeen) -> list[str]:
    """Return what such a rehearsal has left out."""
    left_out = f"real Slurm: {escape(seen.why_not)}. This rehearsal shows nothing of jobs, lost nodes and grown groups"
    return [] if seen.version else [left_out]


def show(console: Console, leftovers: Leftovers, seen: EksSeen | SlurmSeen, details: Path) -> None:
    """Print the verdict on one screen; write what each name in it means to the file `details`."""
    if isinstance(seen, SlurmSeen):
        sections = {_REAL: real_with_slurm(seen), _SIMULATED: simulated_with_slurm(seen), _NOT_ENFORCED: _OF_AWS}
        left_out = not_run(seen)
    else:
        sections = {_REAL: real_with_eks(seen), _SIMULATED: simulated_with_eks(seen), _NOT_ENFORCED: NOT_ENFORCED}
        left_out = []
    with details.open("w") as file:
        _print(Console(file=file, width=_DETAILS_COLUMNS), leftovers, sections | {_NOT_RUN: left_out})
    named = {title: [_names(rows)] for title, rows in sections.items()}
    _print(console, leftovers, named | {_NOT_RUN: left_out})
    console.print(f"What each name means: {details}", soft_wrap=True)


def _print(console: Console, leftovers: Leftovers, sections: Mapping[str, Sequence[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False, title="Verdict", title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, rows in sections.items():
        _section(table, title, rows)
    _section(table, "left: protected stacks", _summary(leftovers.protected))
    _section(table, "left: CDK's bootstrap", _summary(leftovers.bootstrap))
    _section(table, "existing before", _summary(leftovers.existing))
    _section(table, "left by AWS itself", _summary(leftovers.background))
    _section(table, "[red]left, unexpected[/]", _summary(leftovers.unexpected))
    style = "red" if leftovers.nobody else "green"
    table.add_row(f"[{style}]resources without an owner[/]", f"[{style}]{len(leftovers.nobody)}[/]")
    _section(table, "", _summary(leftovers.nobody))
    console.print(table)


def _names(rows: Sequence[str]) -> str:
    """Return what the rows are about, without what they say of it."""
    return ", ".join(row.partition(":")[0] for row in rows)


def _section(table: Table, title: str, rows: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        table.add_row("" if number else title, row)


def _summary(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return one line per type, with the note if there is one."""
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        grouped[item["type"].removeprefix("AWS::").replace("::", " "), item.get("note") or ""].append(item["id"])
    lines = []
    for (kind, note), names in sorted(grouped.items()):
        shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        lines.append(f"{kind}: {shown}" + (f" ({note})" if note else ""))
    return lines
