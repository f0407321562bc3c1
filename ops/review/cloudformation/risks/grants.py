"""Compare what policies allow and deny: statements in any order, split or merged, with wildcards."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ops.review.cloudformation.values import elements, nested, short, text

_POSITIVE_LIKE: Final = re.compile(r"\b(String|Arn)Like(IfExists)?$")
_NEGATED: Final = re.compile(r"Not(Equals|Like|IpAddress|Ip)|^Not", re.IGNORECASE)
_ROOT: Final = re.compile(r"arn:aws[\w-]*:iam::(\d{12}):root")
# Reading, and the channels of Session Manager, which know no resources (service authorization reference).
_HARMLESS: Final = re.compile(r"[\w-]+:(Get|List|Describe|BatchGet)|ssmmessages:", re.IGNORECASE)
# What returns secrets, parameters or objects, or makes them readable.
_SECRETS: Final = (
    *("secretsmanager:getsecretvalue", "secretsmanager:batchgetsecretvalue", "kms:decrypt", "s3:getobject"),
    *("ssm:getparameter", "ssm:getparameters", "ssm:getparametersbypath", "ssm:getparameterhistory"),
)
# Names that begin with a wildcard mean all of a kind. A reference such as ${AWS::Region} is one part of an ARN.
_OF_ALL_NAMES: Final = re.compile(
    r"[*?]+|arn(:(\$\{[^}]*\}|[^:])*){4}:((secret|parameter|key)[:/]?/?)?[*?].*", re.DOTALL
)
# An asset's name in CDK's bucket, and the tag of a Ray image in the names of its logs: hashes of contents.
_CONTENT_HASH: Final = re.compile(r"(?<=[/-])([0-9a-f]{64}|[0-9a-f]{16})(?=\.\w+$|$)")
_NONE: Final = "{}"
_UNRESOLVED: Final = re.compile(r"<\{.*\}>")
"""An expression that only the deployment can resolve, such as the issuer's name in a condition's key."""
_TERMS: Final = 3
"""How many terms of a condition are shown."""
OPAQUE: Final = "(a policy that cannot be read)"


@dataclass(frozen=True)
class PolicyGrant:
    """One action on one resource for one principal."""

    allows: bool
    action: str
    resource: str
    principal: str = ""
    """`AWS:arn…`, `Service:…`, `Federated:…`, `*`; empty if the policy belongs to a role."""
    condition: str = "{}"
    """The statement's condition as JSON text."""
    excluded: frozenset[str] = frozenset()
    """`NotAction`, `NotResource`, `NotPrincipal` and what they name: everything else is meant."""

    @property
    def broad(self) -> bool:
        """Return whether it allows more than a service's own role needs."""
        action = self.action
        if not self.allows:
            return False
        if self.excluded or action == OPAQUE or action.rstrip("*?")[-1:] in ("", ":"):
            return True
        return self.resource == "*" and not _HARMLESS.match(action) and self.condition == "{}" and not self.principal

    @property
    def reads_secrets(self) -> bool:
        """Return whether it allows to read secrets, parameters or objects of all names, without a condition."""
        wide = self.allows and self.condition == "{}" and _OF_ALL_NAMES.fullmatch(self.resource)
        return bool(wide) and self.may_be(_SECRETS)

    def may_be(self, actions: Iterable[str]) -> bool:
        """Return whether its action, which may have wildcards, means one of the actions, written in small letters."""
        return any(_matches(self.action, each) for each in actions)

    def words(self, instead: "PolicyGrant | None" = None) -> str:
        """Return it on one line; of conditions, only what differs from the grant that it is there `instead` of."""
        what = short(f"{self.action} on {self.resource or 'it'}")
        who = f" for {short(self.principal)}" if self.principal else ""
        names = sorted(self.excluded - (instead.excluded if instead else frozenset()))
        but = f" except {short(', '.join(names))}" if names else ""
        return f"{what}{who}{but}{under(self.condition, instead.condition if instead else _NONE)}"

    def is_like(self, grant: "PolicyGrant") -> bool:
        """Return whether only conditions, or what is excepted, tell it from the other grant."""
        mine, other = ((each.allows, each.action, each.resource, each.principal) for each in (self, grant))
        return mine == other


def under(condition: str, before: str = _NONE) -> str:
    """Return a policy's condition in words; after another one, what it asks for no more and what it asks for now."""
    old, new = _terms(before), _terms(condition)
    gone, come = (_shown([each for each in many if each not in others]) for many, others in ((old, new), (new, old)))
    return (f", no longer if {gone}" if gone else "") + (f", if {come}" if come else "")


def _shown(terms: list[str]) -> str:
    return " and ".join(short(each) for each in terms[:_TERMS]) + (" and more" if len(terms) > _TERMS else "")


def _terms(condition: str) -> list[str]:
    """Return what a condition asks for: each value of each key, with the operator."""
    if condition == _NONE:
        return []
    return [
        _UNRESOLVED.sub("<…>", f"{key} {operator} {each}")
        for operator, entries in _operators(condition).items()
        for key, values in entries.items()
        for each in elements(values) or [values]
    ] or [condition]


def grants(document: object) -> Iterator[PolicyGrant]:
    """Yield the grants of a resolved policy document, which may be a JSON text."""
    if isinstance(document, str):
        document = nested(document)
    statements = elements(document.get("Statement")) if isinstance(document, Mapping) else [None]
    for statement in statements:
        if isinstance(statement, Mapping) and statement.get("Effect") in ("Allow", "Deny"):
            yield from _of_statement(statement)
        else:
            yield PolicyGrant(True, OPAQUE, text(statement))


def _of_statement(statement: Mapping[str, Any]) -> Iterator[PolicyGrant]:
    excluded = frozenset(
        f"{key} {each}"
        for key in ("NotAction", "NotResource", "NotPrincipal")
        if key in statement
        for each in (_principals(statement[key]) if key == "NotPrincipal" else elements(statement[key]))
    )
    principals = _principals(statement["Principal"]) if "Principal" in statement else [""]
    everyone = ["*"] if "NotPrincipal" in statement else principals
    for action in ["*"] if "NotAction" in statement else elements(statement.get("Action")):
        for resource in ["*"] if "NotResource" in statement else elements(statement.get("Resource", "")):
            for principal in everyone:
                yield PolicyGrant(
                    statement["Effect"] == "Allow",
                    str(action).lower(),
                    str(resource),
                    principal,
                    text(statement.get("Condition") or {}),
                    excluded,
                )


def _principals(value: object) -> list[str]:
    if not isinstance(value, Mapping):
        return [str(each) for each in elements(value)]
    found = [(str(kind), str(each)) for kind, many in value.items() for each in elements(many)]
    return ["*" if (kind, each) == ("AWS", "*") else f"{kind}:{_account(each)}" for kind, each in found]


def _account(principal: str) -> str:
    return f"arn:aws:iam::{principal}:root" if re.fullmatch(r"\d{12}", principal) else principal


def covered(grant: PolicyGrant, by: Iterator[PolicyGrant] | list[PolicyGrant]) -> bool:
    """Return whether one of the other grants includes all that this one means."""
    return any(_includes(each, grant) for each in by)


def _includes(wide: PolicyGrant, narrow: PolicyGrant) -> bool:
    if wide.allows != narrow.allows or not wide.excluded <= narrow.excluded:
        return False
    return (
        _matches(wide.action, narrow.action)
        and _matches(wide.resource, narrow.resource)
        and _trusts(wide.principal, narrow.principal)
        and _implies(wide.condition, narrow.condition)
    )


@lru_cache(maxsize=4096)
def _pattern(wildcards: str) -> re.Pattern[str]:
    parts = (".*" if char == "*" else "[^*]" if char == "?" else re.escape(char) for char in wildcards)
    return re.compile("".join(parts), re.DOTALL)


def _matches(wide: str, narrow: str) -> bool:
    """Return whether the pattern `wide` matches everything that the pattern `narrow` matches.

    A name that is the hash of its content stands for the same thing in another state.
    """
    wide, narrow = (_CONTENT_HASH.sub("<hash>", each) for each in (wide, narrow))
    return wide == narrow or bool(_pattern(wide).fullmatch(narrow))


def _trusts(wide: str, narrow: str) -> bool:
    if wide in (narrow, "*"):
        return True
    root = _ROOT.fullmatch(wide.removeprefix("AWS:"))
    return bool(root and re.match(rf"AWS:arn:aws[\w-]*:(iam|sts)::{root[1]}:", narrow))


def _implies(wide: str, narrow: str) -> bool:
    """Return whether the condition `narrow` holds only where `wide` holds too."""
    if wide in (narrow, "{}"):
        return True
    loose, strict = _operators(wide), _operators(narrow)
    return bool(loose) and all(
        any(
            _values_imply(operator, wanted, strict.get(name, {}).get(key))
            # With "IfExists" a request without the key passes too; a pattern also matches the name itself.
            for name in (operator, operator.removesuffix("IfExists"), _POSITIVE_LIKE.sub(r"\1Equals", operator))
        )
        for operator, entries in loose.items()
        for key, wanted in entries.items()
    )


def _operators(condition: str) -> dict[str, dict[str, Any]]:
    """Return a condition's keys and values by operator; empty if it is no condition."""
    parsed = nested(condition)
    if not isinstance(parsed, dict) or not all(isinstance(each, dict) for each in parsed.values()):
        return {}
    return parsed


def _values_imply(operator: str, wide: object, narrow: object) -> bool:
    """Return whether the values of `narrow`, None for none, hold only where those of `wide` hold."""
    if narrow is None:
        return False
    loose, strict = ([text(each) for each in elements(side)] for side in (wide, narrow))
    match = _MATCHING.get(re.sub(r"\w+:|IfExists|Not", "", operator), str.__eq__)
    if _NEGATED.search(operator):
        return all(any(match(one, each) for one in strict) for each in loose)
    return all(any(match(one, each) for one in loose) for each in strict)


def _arn_matches(wide: str, narrow: str) -> bool:
    """Return whether each of an ARN's six parts matches: a wildcard of one part does not reach into the next."""
    parts = [each.split(":", 5) for each in (wide, narrow)]
    return len(parts[0]) == len(parts[1]) and all(map(_matches, *parts))


_MATCHING: Final = {"StringLike": _matches, "ArnLike": _arn_matches, "ArnEquals": _arn_matches}
"""How values of an operator are compared that may have wildcards (IAM: ArnEquals behaves as ArnLike)."""
