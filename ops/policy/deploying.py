"""What a deployer may do: assume CDK's roles, and check beforehand that the account is ready."""

from collections.abc import Iterator

from config import naming
from config.facts.charts_lock import STAND_IN_MARKER
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import Statement, actions

_DESCRIBE_EC2 = (
    "DescribeAddresses DescribeAvailabilityZones DescribeInstances DescribeInstanceTypeOfferings "
    "DescribeInstanceTypes DescribeInternetGateways DescribeNatGateways DescribeNetworkInterfaces DescribeRegions "
    "DescribeRouteTables DescribeSubnets DescribeVpcs"
)
_READ_QUOTAS = "GetAWSDefaultServiceQuota GetServiceQuota ListAWSDefaultServiceQuotas ListServiceQuotas"


def assume_bootstrap_roles(arns: Arns) -> Statement:
    """Return the right to assume the bootstrap's roles, which do everything that a deployment does."""
    roles = (naming.bootstrap_role(arns.environment, role) for role in naming.BOOTSTRAP_ROLES)
    return Statement("AssumeBootstrapRoles", actions("sts", "AssumeRole"), tuple(roles))


def preflight(arns: Arns) -> Iterator[Statement]:
    """Yield what `ops preflight` reads, beside the stacks and clusters."""
    environment = arns.environment
    yield Statement(
        "PreflightAccount",
        (
            *actions("ec2", _DESCRIBE_EC2),
            *actions("eks", "ListClusters"),
            *actions("fsx", "DescribeFileSystems"),
            *actions("iam", "ListRoles"),
            *actions("logs", "DescribeLogGroups"),
            *actions("sagemaker", "ListClusters SearchTrainingPlanOfferings"),
            *actions("servicequotas", _READ_QUOTAS),
        ),
        EVERYTHING,
    )
    marker = STAND_IN_MARKER.removeprefix("/")
    version = naming.bootstrap_version(environment).removeprefix("/")
    parameters = arns.of("ssm", f"parameter/{version}", f"parameter/{marker}")
    yield Statement("PreflightBootstrap", actions("ssm", "GetParameter"), parameters)
    yield Statement("PreflightBuckets", actions("s3", "ListBucket"), arns.buckets)
    yield Statement("PreflightRepository", actions("ecr", "DescribeRepositories"), arns.repository)
    yield Statement("PreflightTrainingPlans", actions("sagemaker", "DescribeTrainingPlan"), arns.training_plans)
    yield Statement("PreflightKey", actions("kms", "DescribeKey GetKeyPolicy"), arns.company_key)
    if vpc := environment.network.existing:
        owned = f"arn:aws:ec2:{environment.region}:{vpc.owner or environment.account}:vpc/{vpc.id}"
        yield Statement("PreflightVpc", actions("ec2", "DescribeVpcAttribute"), (owned,))
    if cluster := environment.existing_eks:
        add_on = arns.of("eks", f"addon/{cluster.name}/vpc-cni/*")
        yield Statement("PreflightAddOn", actions("eks", "DescribeAddon"), add_on)
        yield Statement("PreflightAddOns", actions("eks", "ListAddons"), arns.eks_cluster)
