"""Checks of the account itself: credentials, region, CDK's bootstrap, service-linked roles, endpoints."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from config import Environment, naming
from config.key_policy import named_principals
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here

BOOTSTRAP_VERSION: Final = 6
"""The bootstrap that templates of CDK's default synthesizer require (aws-cdk-lib, DefaultStackSynthesizer)."""

# One cheap call of each service that `cdk deploy` and `ops` call from this machine.
_CALLS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "sts": ("get_caller_identity", {}),
    "cloudformation": ("list_exports", {}),
    "s3": ("list_buckets", {}),
    "ssm": ("describe_parameters", {"MaxResults": 1}),
    "ecr": ("describe_repositories", {"maxResults": 1}),
    "eks": ("list_clusters", {"maxResults": 1}),
    "sagemaker": ("list_clusters", {"MaxResults": 1}),
}


def credentials(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Name the caller; wrong credentials end the command before any check.

    AWS: sts GetCallerIdentity, which needs no permission. Source: STS API reference, GetCallerIdentity.
    """
    caller = here.client("sts").get_caller_identity()
    # Without `arn:aws:sts::ACCOUNT:`, so that it fits beside the title.
    yield passed(f"{caller['Arn'].split(':', 5)[-1]} of account {caller['Account']}")


def region(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require a region that the account has enabled.

    AWS: ec2 DescribeRegions. Source: AWS Account Management reference guide, "Enable or disable AWS Regions": regions
    launched after 2019 are opt-in.
    """
    code = here.environment.region
    found = here.client("ec2").describe_regions(RegionNames=[code], AllRegions=True)["Regions"]
    state = found[0].get("OptInStatus", "opt-in-not-required") if found else "unknown to AWS"
    if state in ("opt-in-not-required", "opted-in"):
        yield passed(f"{code} is enabled")
    else:
        yield failed(f"{code} is {state}", f"aws account enable-region --region-name {code}")


def bootstrap(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require CDK's bootstrap in the version that the templates demand.

    AWS: ssm GetParameter. Source: CDK developer guide, "Bootstrapping": each template reads this parameter.
    """
    environment = here.environment
    qualifier = environment.company.bootstrap_qualifier
    fix = f"cdk bootstrap aws://{environment.account}/{environment.region}"
    fix += f" --qualifier {qualifier} --toolkit-stack-name CDKToolkit-{qualifier}" if qualifier else ""
    try:
        version = int(
            here.client("ssm").get_parameter(Name=naming.bootstrap_version(environment))["Parameter"]["Value"]
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        yield failed(f"the account is not bootstrapped in {environment.region}", fix)
        return
    if version < BOOTSTRAP_VERSION:
        yield failed(f"version {version}; the templates require {BOOTSTRAP_VERSION}", fix)
    else:
        yield passed(f"version {version}")


def linked_services(environment: Environment) -> list[str]:
    """Return the services whose service-linked roles a deployment uses."""
    services = ["hyperpod.sagemaker.amazonaws.com"]
    if environment.system_nodes:
        services += ["eks-nodegroup.amazonaws.com", "autoscaling.amazonaws.com"]
    if environment.kubernetes_version and environment.existing_eks is None:
        services.append("eks.amazonaws.com")
    if environment.fsx.existing is None:
        services.append("fsx.amazonaws.com")
    return services


def key(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require the company's KMS key: enabled, symmetric, and with a policy that names those who need to be named.

    AWS: kms DescribeKey, GetKeyPolicy. Source: docs/operate/company-rules.md, which has the policy with its sources.
    """
    arn = here.environment.company.kms_key
    if arn is None:
        return
    kms = here.client("kms")
    try:
        found = kms.describe_key(KeyId=arn)["KeyMetadata"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotFoundException":
            raise
        yield failed("there is no such key in this region", "correct company.kms_key: `aws kms list-keys`", arn)
        return
    if (state := found["KeyState"]) != "Enabled":
        fix = f"aws kms enable-key --key-id {arn}"
        if state == "PendingDeletion":
            fix = f"aws kms cancel-key-deletion --key-id {arn}, then {fix}"
        yield failed(f"it is {state}", fix, arn)
        return
    if found.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        yield failed(f"it is a key of kind {found['KeySpec']}", "use a symmetric key for encryption", arn)
        return
    policy = json.loads(kms.get_key_policy(KeyId=arn, PolicyName="default")["Policy"])
    missing = [name for name in named_principals(here.environment) if name not in _allowed_principals(policy)]
    if missing:
        fix = "add the statements of docs/operate/company-rules.md to the key's policy"
        yield failed(f"its policy does not name {', '.join(missing)}", fix, arn)
    else:
        yield passed("enabled, and its policy names who needs it", arn)


def _allowed_principals(policy: dict[str, Any]) -> set[str]:
    """Return the principals to whom a key policy allows anything."""
    statements = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    given = [each.get("Principal", {}) for each in statements if each["Effect"] == "Allow"]
    listed = [names for each in given for names in (each.values() if isinstance(each, dict) else [each])]
    return {name for names in listed for name in (names if isinstance(names, list) else [names])}


def service_linked_roles(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Warn of service-linked roles that a deployment has to create.

    AWS: iam ListRoles by path, because the documentation is not at one about the name of HyperPod's role. Source: user
    guides of EKS, EC2 Auto Scaling, FSx for Lustre ("Using service-linked roles") and SageMaker AI
    (AmazonSageMakerHyperPodServiceRolePolicy): the service creates its role if the caller may call
    iam:CreateServiceLinkedRole, which company policies often deny.
    """
    for service in linked_services(here.environment):
        roles = here.client("iam").list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]
        if roles:
            yield passed(roles[0]["RoleName"], service)
        else:
            yield warned(
                "missing: AWS creates it at first use if the deployer may (iam:CreateServiceLinkedRole)",
                f"aws iam create-service-linked-role --aws-service-name {service}",
                service,
            )


def endpoints(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require an answer, even a refusal, of each service that a deployment calls from this machine.

    AWS: one cheap read of each service. Source: AWS General Reference, "Service endpoints and quotas".
    """
    unreached = {}
    for service, (operation, arguments) in _CALLS.items():
        client = here.client(service)
        try:
            getattr(client, operation)(**arguments)
        except ClientError:
            continue
        except (AwsConnectionError, HTTPClientError) as error:
            unreached[client.meta.endpoint_url] = str(error)
    for url, reason in unreached.items():
        yield failed(reason, "open your firewall or proxy for it (HTTPS_PROXY), and run the command again", url)
    if not unreached:
        yield passed(f"{', '.join(_CALLS)} answer")
