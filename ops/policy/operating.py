"""What an operator may do: change the HyperPod cluster, open shells on its nodes, and look for drift."""

from collections.abc import Iterator, Mapping, Sequence

from config import naming
from config.facts.drift_permissions import DRIFT_READS
from config.facts.hyperpod_permissions import On, access_conditions, actions_of
from ops.policy import keys, mlflow, monthly_budget
from ops.policy.arns import EVERYTHING, Arns, EksArns
from ops.policy.generated import KUBECTL_BARRIER
from ops.policy.statement import Conditions, Statement, actions

CHANGES = (
    "BatchDeleteClusterNodes",
    "BatchRebootClusterNodes",
    "BatchReplaceClusterNodes",
    "StartClusterHealthCheck",
    "UpdateCluster",
    "UpdateClusterSoftware",
)
"""HyperPod's calls that the commands of `ops` make to change the cluster."""
_WITHOUT_RESOURCE_TYPES = {
    "cloudformation": "DescribeStackDriftDetectionStatus",
    "fsx": "DescribeDataRepositoryAssociations DescribeFileSystems",
    "logs": "DescribeLogGroups",
    "sns": "GetSubscriptionAttributes",
    "ssm": "DescribeParameters",
}
"""Actions of drift detection that take no resource, beside EC2's (service authorization reference)."""


def change_hyperpod(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to change this environment's HyperPod cluster: its tags tell it from others.

    HyperPod makes further calls in the caller's name: it passes the execution role, and gives nodes access to EKS.
    """
    environment = arns.environment
    groups = environment.hyperpod.instance_groups
    images = tuple(dict.fromkeys(group.image_id for group in groups if group.image_id))
    wanted = actions_of(
        CHANGES,
        training_plans=bool(arns.training_plans),
        custom_images=bool(images),
        company_key=bool(arns.company_key),
        eks=environment.has_kubernetes,
    )
    region = environment.region
    resources: Mapping[On, Sequence[str]] = {
        "access-entries": arns.node_access,
        "access-policies": arns.node_access,
        "cluster": arns.hyperpod_clusters,
        "eks-cluster": arns.eks_cluster,
        "everything": EVERYTHING,
        "grants-of-the-key": arns.company_key,
        "images": [f"arn:aws:ec2:{region}::image/{image}" for image in images],
        "key": arns.company_key,
        "new-access-entries": arns.eks_cluster,
        "roles": arns.nodes_role,
        "snapshots": [f"arn:aws:ec2:{region}::snapshot/*"],
        "training-plans": [*arns.training_plans, *arns.of("sagemaker", "reserved-capacity/*")],
    }
    own = {"aws:ResourceTag/project": environment.project, "aws:ResourceTag/environment": environment.name}
    conditions: Mapping[On, Conditions] = {
        **access_conditions(arns.nodes_role, environment.account),
        "cluster": {"StringEquals": own},
        "grants-of-the-key": keys.through(arns, "sagemaker", grants=True),
        "key": keys.through(arns, "sagemaker"),
        "roles": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        # HyperPod shares them with an account of its own, and with nobody else.
        "snapshots": {"StringNotEquals": {"ec2:Add/group": "all"}},
    }
    for on, names in wanted.items():
        sid = "ChangeHyperPod" + "".join(word.title() for word in on.split("-"))
        yield Statement(sid, tuple(names), tuple(resources[on]), conditions.get(on, {}))


def open_shells() -> Iterator[Statement]:
    """Yield the right to open shells on HyperPod's nodes, and on nothing else.

    The service authorization reference gives sessions on HyperPod's nodes no resource type. It names those of all
    other targets, which are therefore denied.
    """
    others = ("ec2:*:*:instance", "ecs:*:*:task", "ssm:*:*:managed-instance")
    start = actions("ssm", "StartSession")
    yield Statement("OpenShells", start, EVERYTHING)
    yield Statement("OnlyOnHyperPod", start, tuple(f"arn:aws:{each}/*" for each in others), denies=True)


def detect_drift(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to start drift detection, and to read what CloudFormation then compares."""
    detect = "DescribeStackResourceDrifts DetectStackDrift DetectStackResourceDrift"
    yield Statement("DetectDrift", actions("cloudformation", detect), arns.stacks)
    yield Statement("DriftOfHyperPod", actions("sagemaker", "ListTags"), arns.hyperpod_clusters)
    barrier = f"parameter/CFN-{KUBECTL_BARRIER}*"
    parameters = arns.of("ssm", barrier) if "eks" in arns.environment.stacks else ()
    yield Statement("DriftParameters", actions("ssm", "GetParameters ListTagsForResource"), parameters)
    of_ec2 = "DescribeVpcAttribute GetManagedPrefixListEntries"
    everywhere = [name for name in actions("ec2", DRIFT_READS["ec2"]) if name not in actions("ec2", of_ec2)]
    for service, names in _WITHOUT_RESOURCE_TYPES.items():
        everywhere += actions(service, names)
    yield Statement("DriftEverywhere", tuple(everywhere), EVERYTHING)
    for service, resources in _drift_resources(arns).items():
        plain = _WITHOUT_RESOURCE_TYPES.get(service, "").split()
        names = of_ec2 if service == "ec2" else DRIFT_READS[service]
        if service == "iam" and not arns.issuer:
            plain.append("GetOpenIDConnectProvider")
        scoped = " ".join(name for name in names.split() if name not in plain)
        yield Statement(f"Drift{service.title()}", actions(service, scoped), resources)


def _drift_resources(arns: Arns) -> Mapping[str, tuple[str, ...]]:
    """Return the environment's resources of each service; ids, and names without the stack's, are AWS's choice."""
    environment = arns.environment
    # Dashboards belong to no region.
    dashboard = f"arn:aws:cloudwatch::{environment.account}:dashboard/{naming.dashboard(environment)}"
    dashboards = (dashboard,) if "ray" in environment.stacks else ()
    kinds = ("access-entry", "addon", "nodegroup")
    return {
        "aps": arns.of("aps", "workspace/*"),
        "budgets": monthly_budget.budget(arns),
        "cloudwatch": (*arns.made("cloudwatch", "alarm:", "alarms"), *dashboards),
        "ec2": arns.of("ec2", "prefix-list/*", "vpc/*"),
        "ecr": arns.repository,
        "eks": (*arns.eks_cluster, *arns.in_eks(*kinds)),
        "events": arns.made("events", "rule/", "rules"),
        "fsx": arns.of("fsx", "association/*", "file-system/*"),
        "grafana": arns.of("grafana", "/workspaces/*"),
        "iam": (*arns.roles, *arns.issuer),
        "kms": arns.of("kms", "key/*"),
        "lambda": (
            *arns.made("lambda", "function:", "functions"),
            *arns.group_counts,
            *arns.of("lambda", "layer:*"),
        ),
        "logs": (*arns.made("logs", "log-group:", "log groups"), *_cluster_logs(arns)),
        "s3": arns.buckets,
        "sagemaker": mlflow.tracking_server(arns),
        "sns": arns.made("sns", "", "topics"),
        "states": arns.of("states", "stateMachine:*"),
    }


def _cluster_logs(arns: Arns) -> tuple[str, ...]:
    """Return the log groups of the EKS cluster, whose names AWS dictates; empty if the environment has none."""
    if not isinstance(arns, EksArns):
        return ()
    cluster = naming.eks_cluster(arns.environment)
    names = naming.control_plane_log_group(cluster), naming.container_insights_log_group(cluster, "*")
    return arns.of("logs", *(f"log-group:{name}" for name in names))
