"""Collect the policies of a role or user of moto's IAM for the evaluator in `policies`, and record its decisions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from moto.iam.models import iam_backends

from embedded_account.journal import Journal
from embedded_account.services.iam.policies import Context, Grants, Policy, PolicyDecision, ResourcePolicy


def grants_of(account_id: str, identity: Any, journal: Journal) -> Grants:
    """Return the inline and managed policies and the permissions boundary of moto's Role or User.

    Each decision is written to the journal, with the digests of the policies (`record_policies`) and the boundary.
    """
    boundary_arn: str | None = getattr(identity, "permissions_boundary_arn", None)
    managed = iam_backends[account_id]["aws"].managed_policies
    boundary = _default_version(managed[boundary_arn]) if boundary_arn else None
    digest = record_policies(identity, journal)
    bounded_by: dict[str, str] = {}
    if boundary_arn and boundary:
        bounded_by[boundary_arn] = _record_policies(journal, boundary_arn, {"boundary": boundary})
    recorder = _Recorder(journal, identity.arn, digest, bounded_by)
    return Grants(tuple(_named_policies(identity).values()), boundary, recorder)


def record_policies(identity: Any, journal: Journal) -> str:
    """Write the policies of moto's Role or User to the journal if it does not have them; return their digest."""
    return _record_policies(journal, identity.arn, _named_policies(identity))


def _record_policies(journal: Journal, arn: str, policies: Mapping[str, Policy]) -> str:
    digest = sha256(json.dumps(policies, sort_keys=True).encode()).hexdigest()[:16]
    journal.record_once("policies", (arn, digest), of=arn, digest=digest, policies=policies)
    return digest


def document(text: Any) -> Policy:
    """Return the policy document; parse it if it is text."""
    parsed: Policy = json.loads(text) if isinstance(text, str) else text
    return parsed


@dataclass(frozen=True)
class _Recorder:
    """Writes the decisions that are made with an identity's policies to the journal."""

    journal: Journal
    principal: str
    digest: str
    boundary: Mapping[str, str]

    def __call__(
        self, action: str, resource: str, context: Context, decision: PolicyDecision, own: ResourcePolicy | None
    ) -> None:
        of_resource = {own.arn: _record_policies(self.journal, own.arn, {"own": own.policy})} if own else {}
        self.journal.record(
            "iam",
            principal=self.principal,
            action=action,
            resource=resource,
            context=dict(context),
            decision=decision.name,
            policies={self.principal: self.digest, **of_resource},
            boundary=self.boundary,
        )


def _named_policies(identity: Any) -> Mapping[str, Policy]:
    """Return the policies by name: an inline policy's, or a managed policy's ARN."""
    inline = {name: document(text) for name, text in identity.policies.items()}
    return inline | {arn: _default_version(policy) for arn, policy in identity.managed_policies.items()}


def _default_version(managed_policy: Any) -> Policy:
    versions = {version.version_id: version.document for version in managed_policy.versions}
    return document(versions[managed_policy.default_version_id])
