"""Say in words what roles, policies and security groups may do more or less after a change."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from ops.review.assembly import Pair, stable
from ops.review.cloudformation.changes import compared
from ops.review.cloudformation.kinds import KINDS, title
from ops.review.cloudformation.risks.grants import PolicyGrant, under
from ops.review.cloudformation.risks.network import closed, opened
from ops.review.cloudformation.risks.policies import OwnedGrant, Owner, differences
from ops.review.cloudformation.sides import ResolvedTemplates, TemplateComparison
from ops.review.cloudformation.values import REFERENCE, elements, readable, short, text

_VERBS: Final = {
    "*": "do everything with",
    "s3:*": "do everything with",
    "s3:deleteobject": "delete objects in",
    "s3:deleteobject*": "delete objects in",
    "s3:deletebucket": "delete",
    "s3:getobject": "read objects in",
    "s3:getobject*": "read objects in",
    "s3:putobject": "write objects in",
    "s3:listbucket": "list objects in",
    "kms:decrypt": "decrypt with",
    "kms:schedulekeydeletion": "delete",
    "fsx:deletefilesystem": "delete",
    "ecr:putimage": "push images to",
    "ecr:deleterepository": "delete",
    "iam:passrole": "pass",
    "sts:assumerole": "assume",
}
_SHOWN: Final = 4


def permissions(pair: Pair) -> Iterator[str]:
    """Yield sentences on rights and open ports that the change gives or takes, in the order of the templates."""
    sides = compared(pair)
    for difference in differences(sides):
        who = _owner(difference.owner, sides)
        for held, allowed, denied in (
            (difference.more, "may now", "may no longer"),
            (difference.fewer, "may no longer", "may now"),
        ):
            yield from _sentences(who, difference.owner, held, (allowed, denied), sides)
    yield from _managed(sides)
    for each, key, _ in opened(sides):
        group = _named(each.group, sides.head) or title("AWS::EC2::SecurityGroup", stable(key[1]))
        yield f"{group} now lets {each.direction} {each.words()}"
    for each in closed(sides):
        yield f"{_named(each.group, sides.head)} no longer lets {each.direction} {each.words()}"


def _sentences(
    who: str, owner: Owner, held: Sequence[OwnedGrant], verbs: tuple[str, str], sides: TemplateComparison
) -> Iterator[str]:
    """Yield a sentence for each resource and condition, with all actions."""
    grouped: dict[tuple[bool, str, str, str, frozenset[str]], list[PolicyGrant]] = defaultdict(list)
    for each in held:
        grant = each.grant
        grouped[grant.allows, grant.principal, grant.resource, grant.condition, grant.excluded].append(grant)
    for (allows, principal, resource, condition, excluded), found in grouped.items():
        may = verbs[0] if allows else verbs[1]
        limits = under(condition)
        but = f", except {short(', '.join(sorted(excluded)))}" if excluded else ""
        subject = _principal(principal, sides) if principal else who
        if owner[0] == "trust of":
            yield f"{subject} {may} assume {who}{limits}{but}"
        else:
            target = _target(resource, sides) if resource else who
            yield f"{subject} {may} {_actions(found, target)}{limits}{but}"


def _actions(found: Sequence[PolicyGrant], target: str) -> str:
    actions = list(dict.fromkeys(each.action for each in found))
    known = [_VERBS[each] for each in actions if each in _VERBS]
    other = [f"`{each}`" for each in actions if each not in _VERBS]
    if len(other) > _SHOWN:
        other = [*other[:_SHOWN], f"{len(other) - _SHOWN} more actions"]
    parts = [f"{verb} {target}" for verb in dict.fromkeys(known)]
    if other:
        parts.append(f"call {', '.join(other)} on {target}")
    return " and ".join(parts)


def _managed(sides: TemplateComparison) -> Iterator[str]:
    for resource in sides.differing("AWS::IAM::Role"):
        old, new = (
            {text(each): str(each) for each in elements(side.get("ManagedPolicyArns"))}
            for side in (resource.before, resource.after)
        )
        role = title(resource.kind, stable(resource.key[1]))
        for side, other, has in ((new, old, "now has"), (old, new, "no longer has")):
            for each in (name for key, name in side.items() if key not in other):
                yield f"{role} {has} the managed policy {each.rpartition('/')[2]}"


def _owner(owner: Owner, sides: TemplateComparison) -> str:
    return _named(owner[1], sides.head) or f"role {short(owner[1])}"


def _named(reference: str, side: ResolvedTemplates) -> str:
    """Return a reference in a reader's words, empty if it is none."""
    match = REFERENCE.fullmatch(reference)
    if not match:
        return ""
    kind = str(side.resources.get((match[1], match[2]), {}).get("Type", ""))
    return title(kind, stable(match[2])) if kind in KINDS else stable(match[2])


def _target(resource: str, sides: TemplateComparison) -> str:
    if resource == "*":
        return "everything"
    match = REFERENCE.match(resource)
    if not match:
        return short(resource)
    rest = resource[match.end() :].removesuffix("/*").removesuffix(":*")
    return f"{_named(match[0], sides.head)}{short(rest) if rest else ''}"


def _principal(principal: str, sides: TemplateComparison) -> str:
    if principal == "*":
        return "everyone"
    name = principal.partition(":")[2]
    return _named(name, sides.head) or short(readable(name))
