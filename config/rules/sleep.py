"""Rules about instance groups that sleep."""

from collections.abc import Iterator
from typing import Final
from zoneinfo import ZoneInfo

from config.model import EksEnvironment
from config.rules.parts import clusters, groups, heads, workers
from config.rules.rule import Violation, error, warning
from config.rules.zones import zone_of

_LEAST_MINUTES: Final = 10
_SHAPE: Final = ("instance_type", "type_facts", "threads_per_core", "labels", "taints")
"""Keys of a group on which it depends whether Ray's workers fit there; the zone is another."""


@error("V113")
def groups_that_can_sleep(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse `sleep` of a group with a training plan, with `min_count`, or with the head of a RayCluster.

    Why: a training plan costs the same with and without nodes. HyperPod rolls a group back that has fewer nodes than
    `min_count`. A RayCluster without its head forgets its jobs, and nothing could say that it is needed again.
    Source: AWS docs, reserve-capacity-with-training-plans; SageMaker API reference, ClusterInstanceGroupSpecification:
    MinInstanceCount; this project, docs/operate/sleep.md.
    Example: hyperpod.instance_groups.0.sleep: {}
    """
    with_head = {head.instance_group: key for key, head in heads(environment)}
    for key, group in groups(environment):
        if not group.sleep:
            continue
        reasons = {
            "training_plan": group.training_plan and "its training plan costs the same while it sleeps",
            "min_count": group.min_count and "min_count demands nodes at all times",
            "the head": group.name in with_head and f"{with_head[group.name]} must run at all times",
        }
        for what, reason in reasons.items():
            if reason:
                fix = "move the head to another group" if what == "the head" else f"remove {what}"
                yield Violation(f"{key}.sleep", reason, f"sleep of a group without {what}", f"remove sleep, or {fix}")


@error("V114")
def times_of_sleep(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a `min` below `count`, an `after` of at least ten minutes, and hours of one day in a known time zone.

    Why: a group with all its nodes does not sleep. Nodes take minutes to come, so a group that slept at once would
    hardly ever be ready. Hours that end before they start would never come.
    Source: this project, docs/operate/sleep.md; IANA, tz database.
    Example: hyperpod.instance_groups.1.sleep: {min: 4}
    """
    for key, group in groups(environment):
        if not group.sleep:
            continue
        if group.sleep.min >= group.count:
            reason, fix = f"count is {group.count}, so no node would ever go", "lower min, raise count, or remove sleep"
            yield Violation(f"{key}.sleep.min", reason, f"less than count, {group.count}", fix)
        if group.sleep.after_seconds < _LEAST_MINUTES * 60:
            reason, allowed = "nodes take minutes to come back", f"at least {_LEAST_MINUTES}m"
            yield Violation(f"{key}.sleep.after", reason, allowed, f"write {_LEAST_MINUTES}m or more")
        if group.sleep.hours:
            _, times, zone = group.sleep.hours.split(" ")
            start, _, end = times.partition("-")
            if end <= start:
                reason, allowed = "they do not end after their start", "hours within one day, the end after the start"
                yield Violation(f"{key}.sleep.hours", reason, allowed, "write the earlier time first")
            if not _is_known(zone):
                reason, allowed = f"there is no time zone {zone}", "names of the tz database, such as Europe/Berlin"
                yield Violation(f"{key}.sleep.hours", reason, allowed, "correct the zone, or write UTC")


@error("V115")
def one_hand_on_the_workers(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse Ray's autoscaler on an instance group that sleeps.

    Why: both would set the number of worker pods, each against the other.
    Source: this project, docs/operate/sleep.md; KubeRay docs, kuberay-autoscaling.
    Example: hyperpod.instance_groups.1.sleep: {}
    """
    asleep = environment.hyperpod.sleeping_groups
    for key, cluster in clusters(environment):
        names = dict.fromkeys(each.instance_group for each in cluster.workers if each.instance_group in asleep)
        if cluster.autoscaling and names:
            yield Violation(
                f"{key}.autoscaling",
                f"instance group {', '.join(names)} sleeps, which sets the number of its worker pods, too",
                "autoscaling on groups that do not sleep",
                "remove autoscaling, or sleep of these groups",
            )


@warning("V116")
def checks_at_each_wake(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of deep health checks of a group that sleeps.

    Why: the checks run on each new node, so each time the group wakes: they take up to hours, and HyperPod takes no
    other change meanwhile.
    Source: AWS docs, sagemaker-hyperpod-eks-resiliency-deep-health-checks; SageMaker API reference, UpdateCluster.
    Example: hyperpod.instance_groups.1.deep_health_checks: [InstanceStress]
    """
    for key, group in groups(environment):
        if group.sleep and group.deep_health_checks:
            reason = "the group sleeps, and each time it wakes they run again, up to hours"
            fix = "remove deep_health_checks, or sleep"
            yield Violation(f"{key}.deep_health_checks", reason, "groups that do not sleep", fix)


@error("V117")
def groups_that_stand_in(environment: EksEnvironment) -> Iterator[Violation]:
    """Require that groups of `wake` sleep, have the shape of the group that names them, and serve it alone.

    Why: its Ray workers must fit there, and nothing else may need these nodes at the same time. Which workers stay
    with `min` is KubeRay's choice: they could keep nodes of both groups.
    Source: this project, docs/operate/sleep.md.
    Example: hyperpod.instance_groups.1.sleep: {wake: [worker-group-2]}
    """
    by_name = {group.name: (key, group) for key, group in groups(environment)}
    with_workers = {each.instance_group: key for key, each in workers(environment)}
    naming: dict[str, str] = {}
    zones = environment.network.node_zones
    for key, group in groups(environment):
        wake = group.sleep.wake if group.sleep else ()
        if wake and group.sleep and group.sleep.min:
            reason = "workers that stay could run on nodes of both groups"
            yield Violation(f"{key}.sleep.min", reason, "0 beside wake", "remove min, or wake")
        for n, name in enumerate(wake):
            place, other = f"{key}.sleep.wake.{n}", by_name.get(name, ("", None))[1]
            if other is None or name == group.name:
                others = ", ".join(each for each in by_name if each != group.name) or "none"
                yield Violation(
                    place, "there is no other instance group of this name", others, "correct the name", name
                )
                continue
            differing = [field for field in _SHAPE if getattr(group, field) != getattr(other, field)]
            if zones and zone_of(environment, group) != zone_of(environment, other):
                differing.append("zone")
            reasons = {
                "a group that sleeps": not other.sleep and f"{name} has no sleep",
                "a group without wake": other.sleep and other.sleep.wake and f"{name} names further groups itself",
                "a group without Ray workers": name in with_workers and f"{with_workers[name]} runs there",
                "a group of one wake": name in naming and f"{naming[name]} names it, too",
                "a group of the same shape": differing and f"{name} differs in {', '.join(differing)}",
            }
            if found := next(((allowed, reason) for allowed, reason in reasons.items() if reason), None):
                allowed, reason = found
                yield Violation(place, str(reason), allowed, "name another group, or change this one", name)
            naming.setdefault(name, place)


def _is_known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        # It has no such file, one of another kind, or leads out of the database.
        return False
    return True
