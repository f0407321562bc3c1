"""Rules about the HyperPod cluster."""

import re
from collections.abc import Iterator
from typing import Final

from config import naming
from config.model import EksEnvironment, Environment
from config.model.hyperpod import SUB_CHARTS
from config.rules.parts import groups, same_names
from config.rules.rule import Violation, error

# Effects of the other sub-charts of aws/sagemaker-hyperpod-cli (helm_chart/HyperPodHelmChart) in this project.
_REFUSED_SUB_CHARTS: Final = {
    "inferenceOperators": "it installs a second FSx CSI driver",
    "storage": "it creates its own volume `fsx-pv`",
    "cert-manager": "it is a managed add-on of EKS: `eks.add_ons`",
}


@error("V1")
def cluster_name(environment: Environment) -> Iterator[Violation]:
    """Require a cluster name that SageMaker accepts.

    Why: CreateCluster refuses other names.
    Source: SageMaker API reference, CreateCluster: ClusterName.
    Example: hyperpod.cluster_name: -ml
    """
    name = environment.hyperpod.cluster_name
    if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name, re.ASCII) or len(name) > 63:
        reason = "SageMaker refuses this name"
        allowed = "1 to 63 letters, digits and hyphens between them, such as ml-cluster"
        yield Violation("hyperpod.cluster_name", reason, allowed, "shorten it, or use hyphens for other characters")


@error("V16")
def bucket_names(environment: Environment) -> Iterator[Violation]:
    """Require names that are short enough for the lifecycle bucket.

    Why: S3 allows 63 characters, and nodes may read only buckets that begin with `sagemaker-`. The bucket's name also
    contains project, environment, account and region.
    Source: AWS docs, API_ClusterLifeCycleConfig; AmazonSageMakerClusterInstanceRolePolicy.
    Example: project: aaaaaaaaaaaaaaaaaaaaaaaaaaa
    """
    name = naming.lifecycle_bucket(environment)
    if len(name) > 63:
        reason = f"the bucket's name {name} would have {len(name)} characters instead of 63"
        if environment.company.name_pattern:
            most = len(naming.named(environment, "lifecycle")) - len(name) + 63
            fix = "shorten the pattern, project, or the environment's name"
            yield Violation("company.name_pattern", reason, f"at most {most} characters with name lifecycle", fix)
            return
        own = f"{environment.project}-{environment.name}"
        most = len(own) - len(name) + 63
        allowed, fix = f"at most {most} characters in {own!r}", "shorten project, or the environment's name"
        yield Violation("project", reason, allowed, fix)


@error("V21")
def sub_charts(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse sub-charts that collide with what the stacks install.

    Why: two releases with the same object fail to install, or delete each other's object.
    Source: aws/sagemaker-hyperpod-cli, Chart.yaml and values.yaml.
    Example: hyperpod.sub_charts: [storage]
    """
    for n, chart in enumerate(environment.hyperpod.sub_charts):
        if chart not in SUB_CHARTS:
            reason = _REFUSED_SUB_CHARTS.get(chart, "it is enabled already, not supported yet or unknown")
            yield Violation(f"hyperpod.sub_charts.{n}", reason, ", ".join(SUB_CHARTS), "delete the item")


@error("V25")
def distinct_groups(environment: Environment) -> Iterator[Violation]:
    """Require different names of instance groups.

    Why: HyperPod and Ray's pods find a group by its name.
    Source: SageMaker API reference, CreateCluster: InstanceGroupName.
    Example: hyperpod.instance_groups.1.name: head-group
    """
    yield from same_names("hyperpod.instance_groups", (group.name for _, group in groups(environment)))


@error("V29")
def removal_of_a_group_that_stays(environment: Environment) -> Iterator[Violation]:
    """Refuse a confirmed removal of a group that is still listed.

    Why: a leftover confirmation would allow the next removal of that group without a question.
    Source: this project, docs/explain/hyperpod-updates.md.
    Example: hyperpod.confirm_group_removal: [head-group]
    """
    names = {group.name for _, group in groups(environment)}
    for n, name in enumerate(environment.hyperpod.confirm_group_removal):
        if name in names:
            yield Violation(
                f"hyperpod.confirm_group_removal.{n}",
                "instance_groups still lists this group",
                "groups that were removed from instance_groups",
                "delete the item, or the group",
            )
