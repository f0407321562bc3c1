"""Say why rights stay that no recorded decision needs."""

import re
from fnmatch import fnmatchcase
from typing import Final

from config.facts.drift_permissions import DRIFT_READS
from rehearsal.rights.replay import Right

_REASONS: Final = (
    ("*ramework*", "lambda:GetFunction", "CDK's provider framework waits with it for a function that is not active"),
    ("*CustomCDKBucketDeployment*", "s3:*", "CDK's own grant of its `BucketDeployment`"),
    *(
        ("admin", actions, "CloudFormation makes the bootstrap with it, in the caller's name, which is not evaluated")
        for actions in ("iam:*Role*", "s3:*Bucket*", "ssm:*Parameter*")
    ),
    ("*", "AWSLambda*", "Lambda writes logs and makes interfaces with it, in a deployment of another kind"),
)
"""Patterns of owners and actions, with the reason; the first that matches counts."""
_DRIFT: Final = frozenset(f"{service}:{name}" for service, names in DRIFT_READS.items() for name in names.split())
_READ_DRIFT: Final = re.compile(r"admin|operator|\w+: Read")


def reason(right: Right) -> str | None:
    """Return why the right stays, or None."""
    for owner, action, why in _REASONS:
        if fnmatchcase(right.owner, owner) and fnmatchcase(right.action, action):
            return why
    if _READ_DRIFT.fullmatch(right.owner) and right.action in _DRIFT:
        return "CloudFormation reads with it for drift detection, in the caller's name, which is not evaluated"
    return None
