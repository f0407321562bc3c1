"""The models of the HyperPod cluster and its instance groups."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from config.facts.instance_types import InstanceType, InstanceTypeFacts, instance_type
from config.model.base import HyperPodName, LabelKey, LabelValue, Model, Shape, ZoneId
from config.model.memory_tier import TieredStorage
from config.model.slurm import SlurmNode

# Sub-charts of HyperPod's dependencies chart (aws/sagemaker-hyperpod-cli) that can be enabled; a rule explains why
# others cannot.
SUB_CHARTS: Final = ("cluster-role-and-bindings", "namespaced-role-and-bindings")

TrainingPlanArn = Annotated[
    str,
    Shape(
        pattern=r"^arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/.+$",
        what="the ARN of a SageMaker training plan",
        like="arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-march",
        fix="copy it from `aws sagemaker list-training-plans`",
    ),
]
ImageId = Annotated[
    str,
    Shape(
        pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$",
        what="the id of an AMI",
        like="ami-0123456789abcdef0",
        fix="copy it from `aws ec2 describe-images --owners self`",
    ),
]

_DAY_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = f"({'|'.join(_DAY_NAMES)})"
_DAYS: Final = f"{_DAY}(-{_DAY})?"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
IdleTime = Annotated[
    str,
    Shape(
        pattern=r"^[1-9][0-9]{0,3}[mh]$",
        what="a time in minutes or hours",
        like="30m",
        fix="write a number and m or h",
        mistakes=((r"[0-9]+", "it has no unit"), (r"[0-9]+(s|d|min|hours?)", "its unit is not m or h")),
    ),
]
WakingHours = Annotated[
    str,
    Shape(
        pattern=rf"^{_DAYS}(,{_DAYS})* {_TIME}-({_TIME}|24:00) [A-Za-z0-9_+/-]+$",
        what="days, times and a time zone",
        like="Mon-Fri 07:00-19:00 Europe/Berlin",
        fix="write days such as Mon-Fri or Sat,Sun, two times of 24 hours, and a name of the tz database",
        mistakes=((r"\S+ \S+", "it has no time zone"),),
    ),
]


class Sleep(Model):
    """When an instance group gives its nodes back: while nothing uses it. It wakes when something does."""

    after: IdleTime = Field(
        default="30m", description="For how long nothing must have used the group, at least `10m`: `45m`, `2h`."
    )
    min: Annotated[int, Field(ge=0)] = Field(default=0, description="Nodes that stay.")
    hours: WakingHours | None = Field(
        default=None,
        description="Hours in which the group has all its nodes, used or not: `Mon-Fri 07:00-19:00 Europe/Berlin`. "
        "Default: none.",
    )
    wake: tuple[HyperPodName, ...] = Field(
        default=(),
        description="Groups of the same shape that wake one after the other if this one has not got its nodes after "
        "30 minutes; its Ray workers run there, too. Default: none.",
    )

    @property
    def after_seconds(self) -> int:
        """The seconds of `after`."""
        return int(self.after[:-1]) * (3600 if self.after.endswith("h") else 60)

    @property
    def hours_per_week(self) -> float:
        """How many hours of a week `hours` has; 0 without."""
        if not self.hours:
            return 0.0
        days, times, _ = self.hours.split(" ")
        start, end = (int(time[:2]) + int(time[3:]) / 60 for time in times.split("-"))
        return len({day for part in days.split(",") for day in _days(part)}) * (end - start)


def _days(part: str) -> Iterator[int]:
    """Yield the days of a part such as `Fri-Mon`, 0 for Monday."""
    first, _, last = part.partition("-")
    start, end = _DAY_NAMES.index(first), _DAY_NAMES.index(last or first)
    return (day % len(_DAY_NAMES) for day in range(start, end + (0 if end >= start else len(_DAY_NAMES)) + 1))


class Taint(Model):
    """A Kubernetes taint of a group's nodes."""

    key: LabelKey = Field(description="Its key.")
    value: LabelValue = Field(default="", description="Its value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(description="What it does to pods.")


class InstanceGroup(Model):
    """One HyperPod instance group (CreateCluster's `ClusterInstanceGroupSpecification`)."""

    name: HyperPodName = Field(description="Its name, and the nodes' label `instance-group-name`.")
    instance_type: str = Field(description="HyperPod's name of the type, `ml.…`.")
    type_facts: InstanceTypeFacts | None = Field(
        default=None,
        description="Figures of a type that the catalogue lacks, or that override the catalogue's figures.",
    )
    count: Annotated[int, Field(ge=0, le=6758)] = Field(description="Number of nodes.")
    slurm: SlurmNode | None = Field(default=None, description="What its nodes are in Slurm; only beside `slurm`.")
    min_count: Annotated[int, Field(ge=1, le=6758)] | None = Field(
        default=None,
        description="Nodes that must start within three hours, or HyperPod rolls the group back. Default: HyperPod "
        "keeps the nodes that start, and keeps trying to start the others.",
    )
    threads_per_core: int = Field(
        default=1, description="1, or 2 on types with hyper-threads.", json_schema_extra={"enum": [1, 2]}
    )
    volume_gib: int = Field(
        default=500,
        description="Secondary volume in GiB for container images and kubelet data. They would fill "
        "the root volume, whose size (100 GiB) HyperPod fixes.",
    )
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = Field(
        default=(), description="Checks of accelerated nodes before they accept work; they take minutes to hours."
    )
    sleep: Sleep | None = Field(
        default=None,
        description="Give the nodes back while nothing uses them: the group has at most `count` nodes. `{}` has all "
        "defaults. Default: it always has `count` nodes.",
    )
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Kubernetes labels of the nodes.")
    taints: tuple[Taint, ...] = Field(
        default=(), description="Kubernetes taints of the nodes. Ray's pods of this group tolerate them, others do not."
    )
    zone: ZoneId | None = Field(
        default=None,
        description="Zone of the nodes, one of the network's; it cannot change later. Default: the first zone, which "
        "is the file system's.",
    )
    training_plan: TrainingPlanArn | None = Field(
        default=None,
        description="ARN of the training plan whose capacity the group uses; `zone` must then be the plan's.",
    )
    image_id: ImageId | None = Field(
        default=None, description="Custom AMI, based on HyperPod's, unencrypted and in this account."
    )
    lifecycle_scripts: str = Field(
        # With an argument, pydantic gives the factory the values of the fields above.
        default_factory=lambda values: f"lifecycle_scripts/{'slurm' if values.get('slurm') else 'eks'}",
        description="Folder of scripts, relative to the project, whose `on_create.sh` each new node runs as root. "
        "Default: `lifecycle_scripts/eks`, or `lifecycle_scripts/slurm` for nodes of Slurm.",
    )

    @property
    def type(self) -> InstanceType:
        """The figures of the group's type. Raises KeyError for a type that the rules refuse."""
        kind = instance_type(self.instance_type, self.type_facts)
        if kind is None:
            raise KeyError(self.instance_type)
        return kind


class HyperPod(Model):
    """The HyperPod cluster. EKS or Slurm orchestrates it; an EKS cluster orchestrates one HyperPod cluster."""

    cluster_name: str = Field(
        description="Its name in SageMaker.", json_schema_extra={"pattern": "^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"}
    )
    node_recovery: Literal["Automatic", "None"] = Field(
        default="Automatic", description="Whether HyperPod replaces or reboots unhealthy nodes."
    )
    instance_groups: tuple[InstanceGroup, ...] = Field(min_length=1, max_length=100, description="The groups of nodes.")
    tiered_storage: TieredStorage | None = Field(
        default=None,
        description="Keep checkpoints in the nodes' memory, too: jobs save there with `memory_every`, and Ray's pods "
        "may reach HyperPod's checkpoint daemons. Default: no memory tier.",
    )
    sub_charts: tuple[str, ...] = Field(
        default=(),
        json_schema_extra={"items": {"enum": list(SUB_CHARTS)}},
        description="Optional sub-charts of HyperPod's dependencies chart to enable: roles for groups of data "
        "scientists.",
    )
    confirm_group_removal: tuple[HyperPodName, ...] = Field(
        default=(),
        description="Names of groups that were removed from `instance_groups` or renamed, and whose nodes may be "
        "deleted; such a change is refused without this confirmation.",
    )

    @property
    def sleeping_groups(self) -> dict[str, tuple[int, int]]:
        """The fewest and the most nodes of each group that sleeps, by name."""
        return {group.name: (group.sleep.min, group.count) for group in self.instance_groups if group.sleep}

    @property
    def tier_percent(self) -> int:
        """The percentage of each node's memory that the memory tier may use."""
        return self.tiered_storage.memory_percent if self.tiered_storage else 0
