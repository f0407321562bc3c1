"""Rules about what a company demands."""

from collections.abc import Iterator
from typing import Final

from config import naming
from config.model import Environment
from config.rules.rule import Violation, error

_OWN_TAGS: Final = ("SageMaker", "project", "environment", "Name", naming.ENVIRONMENT_TAG)
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
        if key.casefold() in {own.casefold() for own in _OWN_TAGS}:
            own = f"any key but {', '.join(_OWN_TAGS)}"
            yield Violation(f"company.tags.{key}", "the project sets this key itself", own, "use another key")
    if len(tags) > _MOST_TAGS:
        yield Violation("company.tags", "AWS allows fifty tags on a resource", f"at most {_MOST_TAGS}", "remove some")
