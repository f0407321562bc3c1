"""What the workflows' roles may do: assume CDK's roles, or read what the commands of `ops` read."""

from aws_cdk import aws_iam as iam

from config import EksEnvironment, Environment, naming
from config.facts.drift_permissions import DRIFT_READS
from k8s_charts.shared.names import IMAGE_BUILD_LOGS


def assume_bootstrap_roles(environment: Environment) -> iam.PolicyStatement:
    """Return the right to assume the bootstrap's roles in the environment's account and region."""
    return iam.PolicyStatement(
        sid="AssumeBootstrapRoles",
        actions=["sts:AssumeRole"],
        resources=[naming.bootstrap_role(environment, role) for role in naming.BOOTSTRAP_ROLES],
    )


def find(environment: EksEnvironment) -> list[iam.PolicyStatement]:
    """Return the rights to read the environment's stacks, and to find its clusters."""
    where = f"{environment.region}:{environment.account}"
    return [
        iam.PolicyStatement(
            sid="ReadStacks",
            actions=[f"cloudformation:{name}" for name in ("DescribeStacks", "GetTemplate")],
            resources=_stacks(environment),
        ),
        iam.PolicyStatement(
            sid="FindKubernetes",
            actions=["eks:DescribeCluster"],
            resources=[f"arn:aws:eks:{where}:cluster/{naming.eks_cluster(environment)}"],
        ),
        iam.PolicyStatement(
            sid="FindHyperPod",
            actions=["sagemaker:DescribeCluster"],
            resources=[_hyperpod_clusters(environment)],
        ),
    ]


def wait(environment: EksEnvironment) -> list[iam.PolicyStatement]:
    """Return the further rights of `ops wait`: the cluster's nodes and events, the image and its build's log."""
    where = f"{environment.region}:{environment.account}"
    nodes = ("DescribeClusterEvent", "ListClusterEvents", "ListClusterNodes")
    statements = [
        iam.PolicyStatement(
            sid="ReadNodes",
            actions=[f"sagemaker:{name}" for name in nodes],
            resources=[_hyperpod_clusters(environment)],
        )
    ]
    if repository := environment.image.repository:
        image = f"arn:aws:ecr:{where}:repository/{repository}"
        logs = f"arn:aws:s3:::{naming.data_bucket(environment)}/{IMAGE_BUILD_LOGS}/*"
        statements += [
            iam.PolicyStatement(sid="ReadImage", actions=["ecr:DescribeImages"], resources=[image]),
            iam.PolicyStatement(sid="ReadBuildLog", actions=["s3:GetObject"], resources=[logs]),
        ]
        if key := environment.company.kms_key:
            through = {"StringEquals": {"kms:ViaService": f"s3.{environment.region}.amazonaws.com"}}
            statements.append(
                iam.PolicyStatement(sid="DecryptBuildLog", actions=["kms:Decrypt"], resources=[key], conditions=through)
            )
    return statements


def _stacks(environment: Environment) -> list[str]:
    # A pattern would also name the stacks of an environment whose name begins alike.
    where = f"{environment.region}:{environment.account}"
    names = (naming.stack(environment, part) for part in environment.stacks)
    return [f"arn:aws:cloudformation:{where}:stack/{name}/*" for name in names]


def _hyperpod_clusters(environment: Environment) -> str:
    # A cluster's ARN ends in an id that SageMaker chooses.
    return f"arn:aws:sagemaker:{environment.region}:{environment.account}:cluster/*"


def detect_drift(environment: Environment) -> list[iam.PolicyStatement]:
    """Return the rights to start CloudFormation's drift detection, and to read what it compares."""
    where = f"{environment.region}:{environment.account}"
    reads = {service: names for service, names in DRIFT_READS.items() if service != "budgets" or environment.has_budget}
    return [
        iam.PolicyStatement(
            sid="DetectDrift",
            actions=[
                f"cloudformation:{name}"
                for name in (
                    "DescribeStackResourceDrifts",
                    "DetectStackDrift",
                    "DetectStackResourceDrift",
                    "ListStackResources",
                )
            ],
            resources=_stacks(environment),
        ),
        iam.PolicyStatement(
            sid="ReadParameters",
            actions=["ssm:GetParameters"],
            # CloudFormation names the parameters of the stacks, which hold no secret.
            resources=[f"arn:aws:ssm:{where}:parameter/CFN-*"],
        ),
        iam.PolicyStatement(
            sid="ReadResources",
            actions=[
                "cloudformation:DescribeStackDriftDetectionStatus",
                *(f"{service}:{action}" for service, actions in reads.items() for action in actions.split()),
            ],
            # Most of these actions do not know resources, or know them only by ids that AWS chooses.
            resources=["*"],
        ),
    ]
