"""Physical names, derived from the environment so that no two environments share one."""

from collections.abc import Mapping
from typing import Final

from config.model import EksEnvironment, Environment

ENVIRONMENT_TAG: Final = "ray-on-hyperpod:environment"
"""Key of the tag that marks AWS resources which no stack owns as an environment's."""
BUDGET_TAG: Final = "ray-on-hyperpod-budget"
"""Key of the tag by which AWS assigns costs to the environment's budget. A filter names it before a `$`."""
OWN_TAGS: Final = ("SageMaker", "project", "environment", "Name", ENVIRONMENT_TAG, BUDGET_TAG)
"""Keys of the tags that the project gives to resources."""
STAND_IN_IMAGE: Final = "application/vnd.ray-on-hyperpod.rehearsal.stand-in+json"
"""Media type of the manifest that a rehearsal puts into ECR instead of an image: it builds no images."""
DEFAULT_QUALIFIER: Final = "hnb659fds"
"""CDK's own qualifier (DefaultStackSynthesizer.DEFAULT_QUALIFIER)."""
BOOTSTRAP_ROLES: Final = ("deploy", "file-publishing", "lookup")
"""The bootstrap's roles that `cdk deploy` assumes. CloudFormation's own role is passed on by the first of them."""
USES: Final[Mapping[str, tuple[str, ...]]] = {
    "network": (),
    "storage": ("network",),
    "eks": ("network",),
    "hyperpod": ("storage", "eks"),
    "platform": ("eks",),
    "ray": ("hyperpod", "platform"),
}
"""The stacks that each stack uses: it is deployed after these, and destroyed before them."""
STACKS: Final = tuple(USES)
"""The stacks that an environment can have, in the order of a deployment."""

_PATTERN: Final = "{project}-{environment}-{name}"


def named(environment: Environment, name: str) -> str:
    """Return `name` in the company's pattern of names, else `<project>-<environment>-<name>`."""
    pattern = environment.company.name_pattern or _PATTERN
    filled = pattern.replace("{project}", environment.project).replace("{environment}", environment.name)
    return filled.replace("{name}", name)


def stack(environment: Environment, part: str) -> str:
    """Return the name of a CloudFormation stack. CloudFormation's own names of its resources begin with it."""
    return named(environment, part)


def bootstrap_qualifier(environment: Environment) -> str:
    """Return the qualifier of the names of CDK's bootstrap resources."""
    return environment.company.bootstrap_qualifier or DEFAULT_QUALIFIER


def bootstrap_role(environment: Environment, role: str) -> str:
    """Return the ARN of a role of CDK's bootstrap, such as `deploy`."""
    name = f"cdk-{bootstrap_qualifier(environment)}-{role}-role-{environment.account}-{environment.region}"
    return f"arn:aws:iam::{environment.account}:role/{name}"


def bootstrap_version(environment: Environment) -> str:
    """Return the name of the parameter in which CDK's bootstrap keeps its version."""
    return f"/cdk-bootstrap/{bootstrap_qualifier(environment)}/version"


def toolkit_stack(environment: Environment) -> str:
    """Return the name of the stack of CDK's bootstrap."""
    qualifier = environment.company.bootstrap_qualifier
    return f"CDKToolkit-{qualifier}" if qualifier else "CDKToolkit"


def eks_cluster(environment: EksEnvironment) -> str:
    """Return the name of the EKS cluster: the existing one's, if one is used."""
    if existing := environment.eks.existing:
        return existing.name
    patterned = environment.company.name_pattern is not None
    return named(environment, "eks") if patterned else f"{environment.project}-{environment.name}"


def control_plane_log_group(cluster: str) -> str:
    """Return the name of the log group into which EKS writes the logs of a cluster's control plane; EKS dictates it."""
    return f"/aws/eks/{cluster}/cluster"


CONTAINER_INSIGHTS_LOGS: Final = ("application", "dataplane", "host", "performance")
"""Container Insights' log groups of a cluster (CloudWatch user guide, Container-Insights-EKS-logs)."""


def container_insights_log_group(cluster: str, log: str) -> str:
    """Return the name of one of Container Insights' log groups; its agents dictate it."""
    return f"/aws/containerinsights/{cluster}/{log}"


def lifecycle_bucket(environment: Environment) -> str:
    """Return the name of the bucket of the lifecycle scripts.

    AmazonSageMakerClusterInstanceRolePolicy lets nodes read buckets with the prefix `sagemaker-`. Bucket names are
    global, so account and region are part of the name.
    """
    patterned = environment.company.name_pattern is not None
    own = named(environment, "lifecycle") if patterned else f"{environment.project}-{environment.name}"
    return f"sagemaker-{own}-{environment.account}-{environment.region}"


def group_counts(environment: Environment) -> str:
    """Return the name of the function that sets the counts of instance groups that sleep."""
    return named(environment, "group-counts")


def data_bucket(environment: Environment) -> str:
    """Return the name of the bucket of datasets and results: the file system mirrors its prefixes."""
    return f"{named(environment, 'data')}-{environment.account}-{environment.region}"


def dashboard(environment: Environment) -> str:
    """Return the name of the CloudWatch dashboard.

    All regions of an account share the names of dashboards (CloudWatch API reference, PutDashboard), and PutDashboard
    overwrites a dashboard of the same name. So the region is part of the name.
    """
    return named(environment, environment.region)


def tracking_server(environment: Environment) -> str:
    """Return the name of SageMaker's MLflow tracking server of the environment."""
    return named(environment, "mlflow")


def tracking_server_arn(environment: Environment) -> str:
    """Return the ARN of SageMaker's MLflow tracking server: clients take it as the address of the server."""
    where = f"{environment.region}:{environment.account}"
    return f"arn:aws:sagemaker:{where}:mlflow-tracking-server/{tracking_server(environment)}"


def volume_namespace(environment: EksEnvironment) -> str:
    """Return the Kubernetes namespace where root gives Ray's user a directory: Ray's own, if its claim is dynamic."""
    ray = environment.ray.namespace
    return ray if environment.fsx.dynamic else f"{ray}-volume"


def environment_tag(environment: Environment) -> str:
    """Return the value of the environment tag: unique within an account and region, as stack names are."""
    return f"{environment.project}-{environment.name}"


def budget_tag(environment: Environment) -> str:
    """Return the value of the budget's tag: a budget counts all regions of the account."""
    return f"{environment_tag(environment)}-{environment.region}"


def tags_of_all(environment: Environment) -> dict[str, str]:
    """Return the tags of every resource: the company's, and the budget's if there is one."""
    budget = {BUDGET_TAG: budget_tag(environment)} if environment.has_budget else {}
    return {**environment.company.tags, **budget}
