"""Rules about what a company demands."""

from collections.abc import Iterator
from typing import Final

from config import naming
from config.model import Environment
from config.rules.rule import Violation, error

# "Tag your AWS resources": at most 50 tags on a resource; CloudFormation and this project set some themselves.
_MOST_TAGS: Final = 40


@error("V80")
def boundary_of_the_account(environment: Environment) -> Iterator[Violation]:
    """Require a permissions boundary of the environment's own account.

    Why: IAM accepts only a policy of the role's account, or one of AWS's own.
    Source: AWS docs, IAM: permissions boundaries for IAM entities.
    Example: company.permissions_boundary: arn:aws:iam::444455556666:policy/Boundary
    """
    boundary = environment.company.permissions_boundary
    if boundary and boundary.split(":")[4] not in {environment.account, "aws"}:
        allowed = f"a policy of account {environment.account}"
        yield Violation(
            "company.permissions_boundary", "it belongs to another account", allowed, "create the policy there"
        )


@error("V81")
def tags_leave_the_projects_own(environment: Environment) -> Iterator[Violation]:
    """Require tags that differ from the project's own, and at most forty.

    Why: HyperPod, the FSx CSI driver and the handlers find their resources by the project's own tags. AWS allows fifty
    tags on a resource, some of which CloudFormation sets.
    Source: AWS docs, Tag your AWS resources.
    Example: company.tags: {project: ml}
    """
    tags = environment.company.tags
    for key in tags:
        if key.casefold().startswith("aws:"):
            yield Violation(
                "company.tags", f"AWS alone sets keys such as {key!r}", "keys without aws:", "use another key"
            )
        if key.casefold() in {own.casefold() for own in naming.OWN_TAGS}:
            own = f"any key but {', '.join(naming.OWN_TAGS)}"
            yield Violation(f"company.tags.{key}", "the project sets this key itself", own, "use another key")
    if len(tags) > _MOST_TAGS:
        yield Violation("company.tags", "AWS allows fifty tags on a resource", f"at most {_MOST_TAGS}", "remove some")


@error("V82")
def key_of_the_account(environment: Environment) -> Iterator[Violation]:
    """Require a KMS key of the environment's own account and region.

    Why: EKS, EBS, FSx, ECR, SNS and CloudWatch Logs use keys of their own region only, and only the account's own key
    policy and IAM policies are checked here.
    Source: AWS docs, KMS: key policies; EKS CreateCluster, encryptionConfig; SageMaker AI, smcluster-cmk.
    Example: company.kms_key: arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
    """
    if not (key := environment.company.kms_key):
        return
    region, account = key.split(":")[3:5]
    allowed = f"a key of account {environment.account} in {environment.region}"
    if account != environment.account:
        yield Violation("company.kms_key", "it belongs to another account", allowed, "use a key of that account")
    elif region != environment.region:
        reason, fix = f"it is in {region}", f"use a key of {environment.region}, or replicate a multi-region key there"
        yield Violation("company.kms_key", reason, allowed, fix)


@error("V83")
def names_keep_environments_apart(environment: Environment) -> Iterator[Violation]:
    """Require a pattern of names that contains the environment's name.

    Why: two environments would use the same names, and the second deployment would change the first one's resources.
    Source: AWS docs, CloudFormation: a stack's name is unique in an account and region.
    Example: company.name_pattern: acme-{name}
    """
    pattern = environment.company.name_pattern
    if pattern and "{environment}" not in pattern:
        reason, allowed = "all environments would use the same names", "a pattern with {environment}"
        yield Violation("company.name_pattern", reason, allowed, "add {environment} before -{name}")


@error("V84")
def given_names_follow_the_pattern(environment: Environment) -> Iterator[Violation]:
    """Require that the names which you choose yourself begin as the company's pattern demands.

    Why: the pattern applies to all names that the project makes, and these two are yours.
    Source: docs/operate/company-rules.md.
    Example: hyperpod.cluster_name: ml-cluster
    """
    pattern = environment.company.name_pattern
    if not pattern or "{environment}" not in pattern:
        return
    begin = naming.named(environment, "")
    given = {
        "hyperpod.cluster_name": environment.hyperpod.cluster_name,
        "image.repository": environment.repository or begin,
    }
    for key, name in given.items():
        if not name.startswith(begin):
            reason = f"it does not follow company.name_pattern {pattern}"
            yield Violation(key, reason, f"a name that begins with {begin}", f"use {begin}{name}")


@error("V107")
def account_of_somebody(environment: Environment) -> Iterator[Violation]:
    """Refuse the account 000000000000, which stands for none.

    Why: AWS gives nobody this id; simulators and examples use it.
    Source: AWS Account Management guide, account identifiers; localstack/localstack, default account.
    Example: account: "000000000000"
    """
    if not environment.account.strip("0"):
        fix = "copy your own from `aws sts get-caller-identity --query Account`"
        yield Violation("account", "AWS gives nobody this id", "an AWS account id, such as 111122223333", fix)
