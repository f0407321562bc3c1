"""Check STS requests: the assumed role must exist, and its trust policy must accept the token of a pod or a workflow.

moto issues credentials for any ARN and does not read web identity tokens. This module does not check whether a role
trusts the user or role that assumes it.
"""

from fnmatch import fnmatchcase
from typing import Any

from moto.sts.models import STSBackend
from moto.sts.responses import TokenResponse

from embedded_account.context import Account
from embedded_account.services.iam.access import backend_of, find_role, listed, statements
from embedded_account.services.shared.refusal import Refusal

_WEB_IDENTITY = "sts:AssumeRoleWithWebIdentity"


def install(account: Account) -> None:
    """Add checks to moto's AssumeRole and AssumeRoleWithWebIdentity."""
    assume_role = STSBackend.assume_role

    def assume_existing_role(backend: Any, **request: Any) -> Any:
        if request["role_arn"].split(":")[4] == account.account_id and not find_role(account, request["role_arn"]):
            raise _denied(f"Not authorized to perform sts:AssumeRole on {request['role_arn']}")
        return assume_role(backend, **request)

    def assume_role_with_web_identity(response: Any) -> Any:
        check_web_identity(account, response._get_param("RoleArn"), response._get_param("WebIdentityToken"))
        return answer(response)

    answer = TokenResponse.assume_role_with_web_identity
    STSBackend.assume_role = assume_existing_role
    TokenResponse.assume_role_with_web_identity = assume_role_with_web_identity


def check_web_identity(account: Account, role_arn: str, token: str) -> str:
    """Return the token's subject, such as the Kubernetes user system:serviceaccount:NAMESPACE:NAME.

    The role must trust an OIDC provider of the account. Its issuer is a running cluster, whose API server must accept
    the token for an audience of the provider, or one of `account.token_issuers`. The trust policy's conditions on
    `:sub` and `:aud` must hold. Raises STS's AccessDenied or InvalidIdentityToken.
    """
    refusal = _denied(f"Not authorized to perform {_WEB_IDENTITY}")
    role = find_role(account, role_arn)
    if role is None:
        raise refusal
    for statement in statements(role.assume_role_policy_document):
        if statement["Effect"] != "Allow" or _WEB_IDENTITY not in listed(statement["Action"]):
            continue
        for provider_arn in listed(statement.get("Principal", {}).get("Federated")):
            user = _accepted_user(account, provider_arn, statement.get("Condition", {}), token)
            if user:
                return user
    raise refusal


def _accepted_user(account: Account, provider_arn: str, conditions: dict[str, Any], token: str) -> str | None:
    provider = backend_of(account).open_id_providers.get(provider_arn)
    if provider is None:
        raise _invalid_token("No OpenIDConnect provider found in your account for this token's issuer")
    url = f"https://{provider.url}"
    issuer = account.token_issuers.get(url) or account.clusters.of_issuer(url)
    if issuer is None:
        raise _invalid_token(f"Couldn't retrieve verification key from {url}")
    for audience in provider.client_id_list:
        user = issuer.user_of_token(token, audience)
        if user:
            claims = {f"{provider.url}:sub": user, f"{provider.url}:aud": audience}
            return user if _hold(conditions, claims) else None
    raise _invalid_token("Incorrect token audience, or the token has expired")


def _hold(conditions: dict[str, dict[str, Any]], claims: dict[str, str]) -> bool:
    """Return whether all conditions hold; a condition with an operator or key that is unknown here never holds."""
    tests = {"StringEquals": lambda claim, value: claim == value, "StringLike": fnmatchcase}
    return all(
        operator in tests and key in claims and any(tests[operator](claims[key], value) for value in listed(values))
        for operator, wanted in conditions.items()
        for key, values in wanted.items()
    )


def _denied(message: str) -> Refusal:
    return Refusal("AccessDenied", message)


def _invalid_token(message: str) -> Refusal:
    return Refusal("InvalidIdentityToken", message)
