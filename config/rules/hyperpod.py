"""Rules of the HyperPod cluster."""

import re
from collections.abc import Iterator
from typing import Final

from config import naming
from config.model import Environment
from config.model.hyperpod import SUB_CHARTS
from config.rules.rule import error
from config.rules.walk import groups, repeated

# What the other sub-charts of aws/sagemaker-hyperpod-cli (helm_chart/HyperPodHelmChart) would do here.
_REFUSED_SUB_CHARTS: Final = {
    "inferenceOperators": "brings a second FSx CSI driver",
    "storage": "brings a volume `fsx-pv` of its own",
    "cert-manager": "is a managed add-on of EKS: `eks.add_ons`",
}


@error("V1")
def cluster_name(environment: Environment) -> Iterator[tuple[str, str]]:
    """SageMaker CreateCluster: ClusterName."""
    name = environment.hyperpod.cluster_name
    if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name, re.ASCII) or len(name) > 63:
        yield "hyperpod.cluster_name", f"{name!r}; allowed: 1 to 63 letters, digits and hyphens between them"


@error("V16")
def bucket_names(environment: Environment) -> Iterator[tuple[str, str]]:
    """S3 takes 63 characters, and nodes may read buckets that begin with `sagemaker-` only.

    The prefix, account and region leave the rest to project and environment (AWS docs: API_ClusterLifeCycleConfig;
    AmazonSageMakerClusterInstanceRolePolicy).
    """
    name = naming.lifecycle_bucket(environment)
    if len(name) > 63:
        own = f"{environment.project}-{environment.name}"
        yield (
            "project",
            f"{environment.project!r} makes the bucket {name}, {len(name)} characters; "
            f"allowed: at most {len(own) - len(name) + 63} in {own!r}, 63 in all",
        )


@error("V21")
def sub_charts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Some sub-charts collide with what the stacks install (aws/sagemaker-hyperpod-cli: Chart.yaml, values.yaml)."""
    for n, chart in enumerate(environment.hyperpod.sub_charts):
        if chart not in SUB_CHARTS:
            reason = _REFUSED_SUB_CHARTS.get(chart, "is on already, not supported yet or unknown")
            yield f"hyperpod.sub_charts.{n}", f"{chart!r} {reason}; allowed: {', '.join(SUB_CHARTS)}"


@error("V25")
def distinct_groups(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod and Ray's pods find a group by its name (SageMaker CreateCluster: InstanceGroupName)."""
    names = [group.name for _, group in groups(environment)]
    if twice := repeated(names):
        yield "hyperpod.instance_groups", f"name {', '.join(twice)} stands there twice; names must differ"


@error("V29")
def removal_of_a_group_that_stays(environment: Environment) -> Iterator[tuple[str, str]]:
    """A confirmation that stays behind would let the next removal of that group pass unseen."""
    names = {group.name for _, group in groups(environment)}
    for n, name in enumerate(environment.hyperpod.confirm_group_removal):
        if name in names:
            yield (
                f"hyperpod.confirm_group_removal.{n}",
                f"{name!r} stands in instance_groups; allowed: groups that were taken out",
            )
