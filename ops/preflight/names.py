"""Checks of names: what exists under a name that the environment needs, and the states of its stacks."""

from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from config import EksEnvironment, Environment, naming
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here

_ABSENT: Final = frozenset({"404", "RepositoryNotFoundException", "ResourceNotFound", "ResourceNotFoundException"})


def stacks(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require stacks in states from which `cdk deploy` can begin.

    AWS: cloudformation DescribeStacks. Source: CloudFormation user guide, "Stack status codes". The CDK CLI itself
    deletes a stack whose creation was rolled back (aws-cdk, `StackStatus.isCreationFailure`).
    """
    wrong = [found for name, state in here.deployed.states.items() if (found := _stack(here, name, state))]
    yield from wrong
    if not wrong:
        by_state: dict[str, list[str]] = {state: [] for state in here.deployed.states.values()}
        for name, state in here.deployed.states.items():
            by_state[state].append(name)
        yield passed(
            "; ".join(f"{state}: {', '.join(names)}" for state, names in by_state.items()) or "none exists yet"
        )


def _stack(here: Here[Environment], name: str, state: str) -> CheckFinding | None:
    delete = f"aws cloudformation delete-stack --stack-name {name} --region {here.environment.region}"
    match state:
        case "ROLLBACK_COMPLETE":
            return warned(f"{state}: `cdk deploy` deletes it first", delete, name)
        case "ROLLBACK_FAILED" | "DELETE_FAILED":
            events = f"aws cloudformation describe-stack-events --stack-name {name}"
            return failed(state, f"{delete}; if it fails again, `{events}` names what remains", name)
        case "CREATE_FAILED" | "UPDATE_FAILED" | "UPDATE_ROLLBACK_FAILED":
            return failed(state, f"cdk rollback {name} -c environment={here.environment.name}", name)
        case "REVIEW_IN_PROGRESS":
            return None  # An empty stack, which an unexecuted change set left; the CDK CLI uses it.
        case _ if state.endswith("_IN_PROGRESS"):
            return failed(f"{state}: another operation runs", "wait for its end", name)
    return None


def cluster(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require that the name of the HyperPod cluster is free, or its own.

    AWS: sagemaker DescribeCluster. Source: SageMaker API reference, CreateCluster: names are unique in an account and
    region.
    """
    name = here.environment.hyperpod.cluster_name
    fix = f"set another hyperpod.cluster_name, or: aws sagemaker delete-cluster --cluster-name {name}"
    yield is_free(
        here, "Custom::HyperPodCluster", name, _exists(here, "sagemaker", "describe_cluster", ClusterName=name), fix
    )


def orchestrator(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require that no other HyperPod cluster uses an existing EKS cluster.

    AWS: sagemaker ListClusters, DescribeCluster. Source: SageMaker AI developer guide, "Orchestrating HyperPod with
    EKS": one HyperPod cluster for one EKS cluster.
    """
    existing, own = here.environment.eks.existing, here.environment.hyperpod.cluster_name
    if existing is None:
        return
    names = [each["ClusterName"] for each in here.pages("sagemaker", "list_clusters", "ClusterSummaries")]
    for name in names:
        cluster = here.client("sagemaker").describe_cluster(ClusterName=name)
        arn = cluster.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn", "")
        if name != own and arn.endswith(f":cluster/{existing.name}"):
            fix = f"use another EKS cluster, or: aws sagemaker delete-cluster --cluster-name {name}"
            yield failed(f"HyperPod cluster {name} uses it, and can be its only one", fix, existing.name)
            return
    yield passed("no other HyperPod cluster uses it", existing.name)


def eks(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require that the names of a new EKS cluster and of its log group are free, or its own.

    AWS: eks DescribeCluster, logs DescribeLogGroups. Source: EKS user guide, "Send control plane logs to CloudWatch
    Logs": EKS itself creates the group of a cluster whose stack does not, and nobody deletes it.
    """
    if here.environment.eks.existing:
        return
    name, region = naming.eks_cluster(here.environment), here.environment.region
    fix = "set another project or name of the environment"
    yield is_free(here, "AWS::EKS::Cluster", name, _exists(here, "eks", "describe_cluster", name=name), fix)
    group = naming.control_plane_log_group(name)
    groups = here.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    fix = f"aws logs delete-log-group --log-group-name {group} --region {region}"
    exists = any(each["logGroupName"] == group for each in groups)
    yield is_free(here, "AWS::Logs::LogGroup", group, exists, fix)


def buckets(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require that the names of the buckets are free in all accounts, or their own.

    AWS: s3 HeadBucket. Source: S3 user guide, "General purpose bucket naming rules": names are global; a refusal (403)
    means that a bucket exists.
    """
    environment = here.environment
    for name in (naming.data_bucket(environment), naming.lifecycle_bucket(environment)):
        try:
            exists = _exists(here, "s3", "head_bucket", Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "403":
                raise
            fix = "set another project or name of the environment, or let your role call s3:ListBucket on it"
            yield failed("a bucket of this name exists, and you may not use it", fix, name)
            continue
        yield is_free(here, "AWS::S3::Bucket", name, exists, f"keep what you need of it, then: aws s3 rb s3://{name}")


def repository(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require that the name of the image's repository is free, or its own.

    AWS: ecr DescribeRepositories. Source: ECR API reference, CreateRepository.
    """
    name = here.environment.image.repository if here.environment.image.built else None
    if name:
        exists = _exists(here, "ecr", "describe_repositories", repositoryNames=[name])
        fix = f"set another image.repository, or: aws ecr delete-repository --repository-name {name}"
        yield is_free(here, "AWS::ECR::Repository", name, exists, fix)


def _exists(here: Here[Environment], service: str, operation: str, **arguments: object) -> bool:
    try:
        getattr(here.client(service), operation)(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            return False
        raise
    return True


def is_free(here: Here[Environment], kind: str, name: str, exists: bool, fix: str) -> CheckFinding:
    """Return the finding about a name that must be free, or the environment's own."""
    if not exists:
        return passed("is free", name)
    if here.deployed.owns(kind, name):
        return passed("is the environment's own", name)
    return failed("exists, and no stack of this environment owns it", fix, name)
