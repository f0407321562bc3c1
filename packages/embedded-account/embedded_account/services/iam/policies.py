"""Evaluate IAM policies, and raise an error for policies that are not supported.

Of IAM's documented evaluation this module implements:

- an explicit Deny wins, then an Allow; without either, the request is implicitly denied;
- the wildcards `*` and `?` in actions and resources;
- the condition operators of `_OPERATORS` and `_NEGATED`, also with IfExists (the condition holds if the request lacks
  the key), and Null;
- all conditions of a statement must hold.

NotAction, NotResource, policy variables and other operators are not implemented. A statement that uses one raises
UnsupportedPolicyError as soon as the statement could decide the request.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

Policy = Mapping[str, Any]
"""A parsed policy document."""
Context = Mapping[str, str]
"""Condition keys of the request, such as {"iam:PassedToService": "sagemaker.amazonaws.com"}."""


class UnsupportedPolicyError(ValueError):
    """A policy uses an element that the evaluator does not implement; the message names it and the statement."""


class PolicyDecision(Enum):
    """The outcome of an evaluation; only ALLOW permits."""

    ALLOW = "allow"
    IMPLICIT_DENY = "no statement allows it"
    EXPLICIT_DENY = "a statement denies it"


@dataclass(frozen=True)
class ResourcePolicy:
    """The policy of a resource, such as a bucket, for a caller who can be named in it by `names`."""

    arn: str
    policy: Policy
    names: frozenset[str]


@dataclass(frozen=True)
class Grants:
    """The permissions of an identity: its policies and, if it has one, its permissions boundary."""

    policies: tuple[Policy, ...]
    boundary: Policy | None = None
    record: Callable[[str, str, Context, PolicyDecision, ResourcePolicy | None], None] | None = None
    """Called with each decision."""

    def decide(self, action: str, resource: str, context: Context, own: ResourcePolicy | None = None) -> PolicyDecision:
        """Decide whether the policies, or the resource's `own`, allow the action, and the boundary, if there is one.

        Source: IAM user guide, "Policy evaluation logic", requests within one account.
        """
        decision = self._decide(action, resource, context, own)
        if self.record:
            self.record(action, resource, context, decision, own)
        return decision

    def _decide(self, action: str, resource: str, context: Context, own: ResourcePolicy | None) -> PolicyDecision:
        decisions = {evaluate(self.policies, action, resource, context)}
        if own:
            decisions.add(decide_by_resource(own.policy, own.names, action, resource, context))
        if PolicyDecision.EXPLICIT_DENY in decisions:
            return PolicyDecision.EXPLICIT_DENY
        if PolicyDecision.ALLOW not in decisions:
            return PolicyDecision.IMPLICIT_DENY
        return evaluate([self.boundary], action, resource, context) if self.boundary else PolicyDecision.ALLOW


def evaluate(policies: Iterable[Policy], action: str, resource: str, context: Context) -> PolicyDecision:
    """Decide whether identity policies allow `action` on `resource`.

    Raises UnsupportedPolicyError if a policy uses an element that the evaluator does not implement.
    """
    decision = PolicyDecision.IMPLICIT_DENY
    for policy in policies:
        for statement in _as_list(policy["Statement"]):
            if not _applies(statement, action, resource, context):
                continue
            if statement["Effect"] == "Deny":
                return PolicyDecision.EXPLICIT_DENY
            decision = PolicyDecision.ALLOW
    return decision


def trusts(trust_policy: Policy, service: str) -> bool:
    """Return whether a role's trust policy lets `service` call sts:AssumeRole."""
    return any(
        statement["Effect"] == "Allow"
        and any(_matches(pattern, "sts:AssumeRole", ignore_case=True) for pattern in _as_list(statement["Action"]))
        and service in _as_list(_services(statement))
        for statement in _as_list(trust_policy["Statement"])
    )


def trusts_caller(trust_policy: Policy, caller_arn: str, context: Context) -> bool:
    """Return whether a role's trust policy lets the role or user `caller_arn` call sts:AssumeRole.

    A statement may name the caller, or its account. Raises UnsupportedPolicyError.
    """
    account = caller_arn.split(":")[4]
    names = {caller_arn, account, f"arn:aws:iam::{account}:root", "*"}
    everywhere = [{**each, "Resource": "*"} for each in _as_list(trust_policy["Statement"])]
    return admits({"Statement": everywhere}, names, "sts:AssumeRole", "*", context)


def admits(policy: Policy, names: Collection[str], action: str, resource: str, context: Context) -> bool:
    """Return whether a resource's own policy allows a principal the action: see `decide_by_resource`."""
    return decide_by_resource(policy, names, action, resource, context) is PolicyDecision.ALLOW


def decide_by_resource(
    policy: Policy, names: Collection[str], action: str, resource: str, context: Context
) -> PolicyDecision:
    """Decide whether a resource's own policy allows a principal the action.

    `names` are those by which a statement may allow something to the principal: its service, its ARN, its account, `*`.
    A statement that denies something to `*` always counts. Raises UnsupportedPolicyError.
    """
    decision = PolicyDecision.IMPLICIT_DENY
    for statement in _as_list(policy["Statement"]):
        if "NotPrincipal" in statement:
            raise UnsupportedPolicyError(f"a statement with NotPrincipal is not supported: {dict(statement)}")
        denies = statement["Effect"] == "Deny"
        if {*names, *("*" if denies else ())}.isdisjoint(_principals(statement)):
            continue
        if not _applies(statement, action, resource, context):
            continue
        if denies:
            return PolicyDecision.EXPLICIT_DENY
        decision = PolicyDecision.ALLOW
    return decision


def _principals(statement: Policy) -> list[Any]:
    principal = statement.get("Principal", {})
    kinds = principal.values() if isinstance(principal, Mapping) else [principal]
    return [name for kind in kinds for name in _as_list(kind)]


def _services(statement: Policy) -> Any:
    principal = statement.get("Principal", {})
    return principal.get("Service", []) if isinstance(principal, Mapping) else []


def _applies(statement: Policy, action: str, resource: str, context: Context) -> bool:
    if "Action" not in statement:
        raise UnsupportedPolicyError(f"a statement without Action (NotAction?) is not supported: {dict(statement)}")
    if not any(_matches(pattern, action, ignore_case=True) for pattern in _as_list(statement["Action"])):
        return False
    if "Resource" not in statement:
        raise UnsupportedPolicyError(f"a statement without Resource (NotResource?) is not supported: {dict(statement)}")
    patterns = _as_list(statement["Resource"])
    _refuse_variables(patterns, statement)
    if not any(_matches(pattern, resource) for pattern in patterns):
        return False
    return all(
        _condition_holds(operator, keys, context, statement)
        for operator, keys in statement.get("Condition", {}).items()
    )


def _condition_holds(operator: str, keys: Mapping[str, Any], context: Context, statement: Policy) -> bool:
    plain = operator.removesuffix(_IF_EXISTS)
    known = ", ".join((*_OPERATORS, *_NEGATED, _NULL))
    if plain not in known.split(", ") or (plain == _NULL and plain != operator):
        raise UnsupportedPolicyError(f"condition operator {operator} is not supported ({known} are): {dict(statement)}")
    present = {key.lower(): value for key, value in context.items()}
    for key, wanted in keys.items():
        patterns = [_expanded(str(pattern), present) for pattern in _as_list(wanted)]
        _refuse_variables(patterns, statement)
        value = present.get(key.lower())
        if plain == _NULL:
            holds = any(pattern.lower() == str(value is None).lower() for pattern in patterns)
        elif value is None:
            holds = plain != operator or plain in _NEGATED
        elif plain in _NEGATED:
            holds = all(_NEGATED[plain](pattern, value) for pattern in patterns)
        else:
            holds = any(_OPERATORS[plain](pattern, value) for pattern in patterns)
        if not holds:
            return False
    return True


def _expanded(pattern: str, present: Mapping[str, Any]) -> str:
    """Replace the policy variables whose keys the request has: `${aws:PrincipalAccount}`."""
    return _VARIABLE.sub(lambda found: str(present.get(found[1].lower(), found[0])), pattern)


def _refuse_variables(patterns: Iterable[str], statement: Policy) -> None:
    if any("${" in pattern for pattern in patterns):
        raise UnsupportedPolicyError(f"policy variables are not supported: {dict(statement)}")


def _matches(pattern: str, value: str, *, ignore_case: bool = False) -> bool:
    return _compiled(pattern, ignore_case).fullmatch(value) is not None


@cache
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.IGNORECASE if ignore_case else 0)


def _arn_like(pattern: str, value: str) -> bool:
    """Return whether an ARN matches a pattern, part by part: a wildcard does not match across a colon."""
    patterns, values = pattern.split(":", 5), value.split(":", 5)
    return len(patterns) == len(values) and all(map(_matches, patterns, values))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_IF_EXISTS = "IfExists"
_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda pattern, value: pattern == value,
    "StringLike": _matches,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": lambda pattern, value: pattern.lower() == value.lower(),
}
_NEGATED: Mapping[str, Callable[[str, str], bool]] = {"StringNotEquals": lambda pattern, value: pattern != value}
"""Operators that hold if no value matches, also if the request lacks the key."""
_NULL = "Null"
"""Holds if the request lacks the key ("true"), or has it ("false")."""
