"""Read and check IAM roles and policies: trust, permissions, and the validity of policy documents.

`policies` evaluates permissions. The resource models are in `models` and `oidc`.
"""

import json
from typing import Any

from moto.core.config import default_user_config
from moto.iam.models import IAMBackend, iam_backends
from moto.iam.policy_validation import IAMPolicyDocumentValidator, IAMTrustPolicyDocumentValidator

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.iam.service_principals import is_service

INLINE_POLICY_CHARACTERS = 10_240
"""The size limit of all inline policies of a role together."""
MANAGED_POLICY_CHARACTERS = 6_144
_TRUST_POLICY_CHARACTERS = 2_048
POLICIES_PER_ROLE = 10


def load_managed_policies() -> None:
    """Make moto load AWS's managed policies, and cache them.

    Without the cache moto reads three megabytes again at every reset of an account's IAM. This would take most of the
    time of a test.
    """
    default_user_config["iam"]["load_aws_managed_policies"] = True
    read = IAMBackend._init_aws_policies
    kept: dict[tuple[str, str], list[Any]] = {}

    def policies_of_aws(backend: Any) -> list[Any]:
        where = backend.account_id, backend.region_name
        if where not in kept:
            kept[where] = read(backend)
        for policy in kept[where]:
            policy.attachment_count = 0
        return kept[where]

    IAMBackend._init_aws_policies = policies_of_aws


def backend_of(account: Account) -> Any:
    """Return moto's IAM backend of the account."""
    return iam_backends[account.account_id]["aws"]


def listed(value: Any) -> list[Any]:
    """Return a policy element as a list: IAM accepts a single value without brackets."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def statements(document: str) -> list[dict[str, Any]]:
    """Return the statements of a policy document."""
    return listed(json.loads(document)["Statement"])


def find_role(account: Account, role_arn: str) -> Any | None:
    """Return moto's Role with this ARN, or None."""
    # A copy: other resources of a stack are created meanwhile.
    return next((role for role in list(backend_of(account).get_roles()) if role.arn == role_arn), None)


def trusts(account: Account, role_arn: str, service: str) -> bool:
    """Return whether the role exists and its trust policy lets `service`, such as lambda.amazonaws.com, assume it."""
    role = find_role(account, role_arn)
    return role is not None and any(
        service in listed(statement.get("Principal", {}).get("Service"))
        for statement in statements(role.assume_role_policy_document)
        if statement["Effect"] == "Allow" and "sts:AssumeRole" in listed(statement["Action"])
    )


def default_document(policy: Any) -> str:
    """Return the document of a managed policy's default version."""
    return next(str(version.document) for version in policy.versions if version.version_id == policy.default_version_id)


def permissions_document(document: Any, *, limit: int) -> str:
    """Return a valid permissions policy as JSON text of at most `limit` characters without white space."""
    text = _text(document)
    IAMPolicyDocumentValidator(text).validate()
    if len(text) > limit:
        raise ResourceError(f"Cannot exceed quota for PolicySize: {limit}", "LimitExceeded")
    return text


def trust_document(account: Account, document: Any) -> str:
    """Return a valid trust policy as JSON text; as in IAM, the roles that it names as principals must exist."""
    text = _text(document)
    # IAM accepts a policy without a Version, such as those of CDK's bootstrap roles; moto's validator does not.
    IAMTrustPolicyDocumentValidator(json.dumps({"Version": "2012-10-17", **json.loads(text)})).validate()
    if len(text) > _TRUST_POLICY_CHARACTERS:
        raise ResourceError(f"Cannot exceed quota for ACLSizePerRole: {_TRUST_POLICY_CHARACTERS}", "LimitExceeded")
    known = {role.arn for role in backend_of(account).get_roles()}
    own_roles = f"arn:aws:iam::{account.account_id}:role/"
    for statement in statements(text):
        principal = statement.get("Principal")
        named = principal if isinstance(principal, dict) else {}
        for arn in listed(named.get("AWS")):
            if arn.startswith(own_roles) and arn not in known:
                raise ResourceError(f'Invalid principal in policy: "AWS":"{arn}"', "MalformedPolicyDocument")
        for service in listed(named.get("Service")):
            if not is_service(service):
                raise ResourceError(f'Invalid principal in policy: "SERVICE":"{service}"', "MalformedPolicyDocument")
    return text


def put_inline_policy(iam: Any, role_name: str, policy_name: str, document: str) -> None:
    """Put an inline policy on a role; all inline policies of a role share one size limit."""
    role = iam.get_role(role_name)
    others = sum(len(text) for name, text in role.policies.items() if name != policy_name)
    if others + len(document) > INLINE_POLICY_CHARACTERS:
        raise ResourceError(
            f"Maximum policy size of {INLINE_POLICY_CHARACTERS} bytes exceeded for role {role_name}", "LimitExceeded"
        )
    iam.put_role_policy(role_name, policy_name, document)


def attach_managed_policy(iam: Any, policy_arn: str, role_name: str) -> None:
    """Attach a managed policy to a role; raise IAM's NoSuchEntity if the policy does not exist."""
    role = iam.get_role(role_name)
    if policy_arn in role.managed_policies:
        return
    if len(role.managed_policies) >= POLICIES_PER_ROLE:
        raise ResourceError(f"Cannot exceed quota for PoliciesPerRole: {POLICIES_PER_ROLE}", "LimitExceeded")
    iam.attach_role_policy(policy_arn, role_name)


def _text(document: Any) -> str:
    value = json.loads(document) if isinstance(document, str) else document
    # In a YAML template the policy's Version can be parsed as a date.
    return json.dumps(value, separators=(",", ":"), default=str)
