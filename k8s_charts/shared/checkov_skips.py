"""Exceptions from checkov's Kubernetes policies, with their reasons, in annotations of each object.

`tests/charts/test_checkov.py` runs the policies. It fails on a violation without a reason and on a reason without a
violation.
"""

from collections.abc import Mapping
from typing import Final

import cdk8s

# Policies by id, with reasons that apply to more than one object.
TAG_UNTIL_SETTLED: Final = {"CKV_K8S_43": "its digest is for the first account to pin: docs/unverified-on-aws.md"}
PULL_IF_ABSENT: Final = {
    "CKV_K8S_15": "its tag does not move, and a registry that is down must not keep it from starting"
}
NEEDS_THE_API: Final = {"CKV_K8S_38": "its program calls the Kubernetes API, by a Role of its own"}


def explain(made: cdk8s.ApiObject, reasons: Mapping[str, str]) -> None:
    """Annotate an object with the policies that it does not meet, by id, and the reasons.

    Raises ValueError if a reason contains "=", which checkov cannot read.
    """
    metadata = made.metadata
    for number, (policy, reason) in enumerate(reasons.items(), start=1):
        if "=" in reason:
            raise ValueError(f"{policy}: checkov takes no '=' in a reason: {reason}")
        metadata.add_annotation(f"checkov.io/skip{number}", f"{policy}={reason}")
