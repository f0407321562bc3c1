"""What a review finds: changes with their effects, and the dangers that `ops gate` stops."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from config.estimates.costs import SleepingNodes

Address = tuple[str, str]
"""A resource of an environment: its stack's part and its logical id."""


class Effect(StrEnum):
    """What a deployment does to the thing that changes; the worst first."""

    DATA_LOST = "data lost"
    """It is deleted, or replaced by an empty one: its data is gone."""
    DELETED = "deleted"
    """It is deleted. It holds no data, or its data stays elsewhere."""
    REPLACED = "replaced"
    """A new one is created and the old one deleted. It holds no data."""
    UNKNOWN = "unknown: read the diff"
    """Neither this project nor CloudFormation's schema says what the change does."""
    REFUSED = "deployment fails"
    """The deployment fails before it changes the thing."""
    ENDS_JOBS = "ends jobs"
    """Pods are deleted on which training may run."""
    NODES_REMOVED = "nodes removed"
    """HyperPod deletes nodes, and does not drain them; EKS drains its own first."""
    NODES_REPLACED = "nodes replaced"
    """Nodes are deleted and created again."""
    NEEDS_ROLLOUT = "needs rollout"
    """It takes effect only after `ops rollout`, which ends jobs."""
    KEPT = "kept, but no longer managed"
    """It leaves its stack and stays in the account."""
    CREATED = "created"
    IN_PLACE = "in place"
    """It is updated while it runs."""
    NOTHING = "nothing"
    """Only texts differ that nothing reads at run time."""

    @property
    def rank(self) -> int:
        """Return the place in the order; 0 is the worst."""
        return _ORDER[self]


_ORDER: Final = {effect: number for number, effect in enumerate(Effect)}


class Danger(StrEnum):
    """Why `ops gate` stops a change that nobody approved."""

    DATA_LOSS = "data-loss"
    """A file system, bucket, key, image repository or backup is deleted or replaced."""
    CLUSTER_LOSS = "cluster-loss"
    """The HyperPod cluster, the EKS cluster, the VPC or a whole stack is deleted or replaced."""
    GROUP_REMOVED = "group-removed"
    """An instance group is removed or renamed."""
    JOBS_REMOVED = "jobs-removed"
    """A RayCluster, or a namespace with Ray's objects, is removed."""
    JOBS_ENDED = "jobs-ended"
    """More nodes, or worker pods, are removed than `removable_nodes`, or nobody knows how many."""
    VERSION_SKIP = "version-skip"
    """Kubernetes goes up by more than one minor version, or down."""
    WIDER_PERMISSIONS = "wider-permissions"
    """A policy allows more actions, resources or principals, or denies fewer; a role is trusted by more; a Kubernetes
    role allows more, or binds more subjects."""
    OPENED_PORT = "opened-port"
    """A security group or network ACL lets more in or out."""
    PUBLIC_ENDPOINT = "public-endpoint"
    """The EKS endpoint, a bucket, a load balancer or a service becomes reachable from more of the Internet."""
    LOOSER_ISOLATION = "looser-isolation"
    """A NetworkPolicy, pod security level, quota, security context or admission rule allows more or is removed."""
    LOWER_PROTECTION = "lower-protection"
    """Termination protection, a retention policy, versioning, encryption, backups, logs or a guard is switched off; an
    alarm, budget, event rule, topic or subscription, or a deep health check, is removed; an alarm or alert fires later;
    a controller of the project may not start."""
    RUNS_CODE = "runs-code"
    """A script, or a container's command, gets a line that deletes data, formats a disk, opens the network, or runs
    code that it fetches."""
    UNKNOWN = "unknown"
    """A resource type, property or kind that no rule knows."""


class Content(StrEnum):
    """What runs without a declaration to judge, so that people must read it."""

    WORKFLOWS = "workflows"
    GATE = "the gate"
    """What decides, and what approves."""
    BEFORE = "what runs before the gate"
    """The set-up, lock files, package managers' configuration, and all commands."""
    ROLES = "deployment roles"
    IMAGE = "the image"
    NODES = "node scripts"
    PODS = "what pods run"
    FUNCTIONS = "functions"
    TEMPLATES = "the templates' code"
    """It runs in a synthesis, and so in the gate's job."""
    OTHER = "other files that may run"
    """What no list names."""


@dataclass(frozen=True)
class ContentChange:
    """One file that differs and that owners must read."""

    kind: Content
    path: str
    lines: int
    """Added and removed ones."""
    diff: str
    """Lines of a unified diff, without file headers; at its end, what is not shown."""


@dataclass(frozen=True)
class Change:
    """One change of one thing in one environment."""

    stack: str
    """Part of the stack's name: network, storage, eks, hyperpod, platform, ray."""
    resource: str
    """The thing's stable name in its stack: `AWS::FSx::FileSystem FileSystem`, `InstanceGroup worker-group-1`,
    `RayCluster ray/rayml`. It holds no hash and no physical id."""
    title: str
    """The thing in a reader's words: `file system`, `instance group worker-group-1`."""
    what: str
    """What differs, on one line: `count 4 → 5`."""
    effect: Effect
    reason: str = ""
    """Why it has this effect; a sentence."""
    action: str = ""
    """What somebody must do, a step on each line, as `ops.review.steps` writes it. Empty: nothing."""
    dangers: frozenset[Danger] = frozenset()
    confirmed_by: str = ""
    """The key of the environment that confirms it already (`protect`, `hyperpod.confirm_group_removal`)."""
    fails_unless: str = ""
    """What must be true, or the deployment fails; a clause. Empty for Effect.REFUSED, which fails in any case."""
    lost: int | None = None
    """The nodes or worker pods that it removes; None: unknown, or none."""
    # Neither counts when changes are compared: changes of several environments can be equal.
    addresses: tuple[Address, ...] = field(default=(), compare=False)
    """The resources that it is about. Empty: it is about a stack or an environment."""
    digest: str = field(default="", compare=False)
    """Identifies the change, for approvals (`ops.review.digests`)."""

    @property
    def gated(self) -> frozenset[Danger]:
        """Return the dangers for which the gate asks; an unknown effect is always one."""
        return self.dangers | ({Danger.UNKNOWN} if self.effect is Effect.UNKNOWN else set())


@dataclass(frozen=True)
class Difference:
    """The texts below the verdict: one document's unified diff."""

    title: str
    """What it is: `RayCluster ray/rayml`, `values of kuberay-operator`, `AWS::IAM::Role RayRole (ray)`."""
    diff: str
    """Lines of a unified diff, without file headers."""


@dataclass(frozen=True)
class ComparedRow:
    """One row of a table before → after, of an instance group or a RayCluster; empty if it is not there."""

    name: str
    before: dict[str, str]
    after: dict[str, str]
    """Values by column, the same columns on both sides."""


@dataclass(frozen=True)
class StandingCosts:
    """Standing costs of one side of an environment. `unpriced` lists what has no price in the table."""

    usd_per_hour: float
    gpus: int
    unpriced: tuple[str, ...] = ()
    budget_usd: float | None = None
    """AWS's budget of a month, which calls somebody; None if there is none."""
    kept_usd_per_hour: float = 0.0
    """The part of `usd_per_hour` for what no stack manages any more."""
    sleeping: tuple[SleepingNodes, ...] = ()
    """The groups that sleep while nothing uses them; `usd_per_hour` has all of their nodes."""


@dataclass(frozen=True)
class EnvironmentVerdict:
    """All that a review says about one environment."""

    name: str
    changes: tuple[Change, ...] = ()
    """Worst first."""
    before: StandingCosts | None = None
    """None: the environment is new."""
    after: StandingCosts | None = None
    """None: the environment is removed."""
    groups: tuple[ComparedRow, ...] = ()
    ray_clusters: tuple[ComparedRow, ...] = ()
    permissions: tuple[str, ...] = ()
    """Sentences on IAM, security groups, NetworkPolicies and Kubernetes roles: `role X may now delete objects in Y`."""
    differences: tuple[Difference, ...] = ()
    """Kubernetes objects, Helm values, templates: what is folded away."""
    synthesised: bool = True
    """False: no input differs, so nothing was compared."""
    dependents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The stacks that are deployed only after each stack, by their parts."""

    @property
    def effect(self) -> Effect:
        """Return the worst effect."""
        return min((change.effect for change in self.changes), key=lambda each: each.rank, default=Effect.NOTHING)


@dataclass(frozen=True)
class Compared:
    """What a review compared: its verdict holds for nothing else."""

    base: str = ""
    """The base's `ops.review.checkouts.inputs.fingerprint`."""
    head: str = ""
    context: Mapping[str, str] = field(default_factory=dict)
    """CDK context of both syntheses."""
    every_environment: bool = False
    """Whether no environment of either checkout was left out."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a pull request, worst environment first."""

    environments: tuple[EnvironmentVerdict, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What holds for the whole review: stale files in manifests/, charts that were not rendered."""
    compared: Compared = field(default_factory=Compared)
    content: tuple[ContentChange, ...] = ()
    """What no template declares, and people must read."""
    format: Literal[1] = 1
    """The version of this form; another one cannot be read."""
