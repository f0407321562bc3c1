"""Collect the policies of a role or user of moto's IAM for the evaluator in `policies`."""

import json
from typing import Any

from moto.iam.models import iam_backends

from embedded_account.services.iam.policies import Grants, Policy


def grants_of(account_id: str, identity: Any) -> Grants:
    """Return the inline and managed policies and the permissions boundary of moto's Role or User."""
    inline = [document(text) for text in identity.policies.values()]
    attached = [_default_version(policy) for policy in identity.managed_policies.values()]
    boundary_arn = getattr(identity, "permissions_boundary_arn", None)
    managed = iam_backends[account_id]["aws"].managed_policies
    return Grants((*inline, *attached), _default_version(managed[boundary_arn]) if boundary_arn else None)


def document(text: Any) -> Policy:
    """Return the policy document; parse it if it is text."""
    parsed: Policy = json.loads(text) if isinstance(text, str) else text
    return parsed


def _default_version(managed_policy: Any) -> Policy:
    versions = {version.version_id: version.document for version in managed_policy.versions}
    return document(versions[managed_policy.default_version_id])
