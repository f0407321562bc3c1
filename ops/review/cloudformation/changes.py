"""Review every resource that differs and that CloudFormation itself manages, and the stacks around them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ops.review.assembly import Pair, ResourceChange, stable
from ops.review.cloudformation import stacks
from ops.review.cloudformation.effects import outcome, replacement
from ops.review.cloudformation.kinds import KINDS, Holds, title
from ops.review.cloudformation.moves import renames, replacements
from ops.review.cloudformation.risks.network import opened_ports, public_endpoints
from ops.review.cloudformation.risks.policies import wider_permissions
from ops.review.cloudformation.risks.programs import other_programs, version_skips
from ops.review.cloudformation.risks.protection import lower_protection
from ops.review.cloudformation.risks.references import other_references
from ops.review.cloudformation.risks.routes import new_ways
from ops.review.cloudformation.risks.subjects import more_subjects
from ops.review.cloudformation.sides import Key, ResolvedTemplates, Risk, TemplateComparison
from ops.review.cloudformation.values import listed
from ops.review.consequences import ReviewFinding, Thing, endangers
from ops.review.model import Change, Danger, Effect

_FINDERS: Final = (
    wider_permissions,
    more_subjects,
    opened_ports,
    public_endpoints,
    new_ways,
    lower_protection,
    other_programs,
    other_references,
    version_skips,
)


@lru_cache(maxsize=4)
def compared(pair: Pair) -> TemplateComparison:
    """Return both sides of a pair, with the renames between them."""
    base, head = ResolvedTemplates(pair.base), ResolvedTemplates(pair.head)
    return TemplateComparison(base, head, renames(base, head), pair.environment)


def changes(pair: Pair, differing: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield at least one change for each resource that differs, and changes of the stacks.

    A resource that does not differ has a change too if the replacement of another one replaces it.
    """
    sides = compared(pair)
    replaced = replacements(sides)
    findings: dict[Key, list[Risk]] = defaultdict(list)
    for find in _FINDERS:
        for each in find(sides):
            findings[each.key].append(each)
    for change in differing:
        key = (change.stack, change.logical_id)
        yield from _of_resource(key, change.type, outcome(change, sides, replaced), findings.pop(key, []))
    seen = {(change.stack, change.logical_id) for change in differing}
    for key, why in replaced.items():
        kind = str(sides.head.resources[key].get("Type"))
        if key not in seen and (kind not in KINDS or KINDS[kind].holds is not Holds.NOTHING):
            yield from _of_resource(key, kind, replacement(key, sides, why), findings.pop(key, []))
    for key, remaining in findings.items():
        kind = str((sides.head.resources.get(key) or sides.base.resources.get(key) or {}).get("Type", "Owner"))
        yield from _of_resource(key, kind, ReviewFinding(""), remaining)
    yield from stacks.changes(pair, sides)


def _of_resource(key: Key, kind: str, happens: ReviewFinding, findings: Sequence[Risk]) -> Iterator[Change]:
    """Yield one change for the resource, and one for each danger that a rule found about it."""
    name = stable(key[1])
    thing = Thing(key[0], f"{kind} {name}", title(kind, name), (key,))
    if happens.dangers or not findings or happens.effect.rank < Effect.CREATED.rank:
        yield thing.has(happens)
    groups: dict[tuple[Danger, str], list[Risk]] = defaultdict(list)
    for each in findings:
        groups[each.danger, each.confirmed_by].append(each)
    tells = happens.effect is Effect.DELETED or happens.effect.rank >= Effect.CREATED.rank
    effect = happens.effect if tells else Effect.IN_PLACE
    for (danger, confirmed), found in groups.items():
        what = listed(list(dict.fromkeys(each.what for each in found)))
        worst = Effect.DATA_LOST if danger is Danger.DATA_LOSS else effect
        shown = Effect.IN_PLACE if worst is Effect.NOTHING else worst
        yield thing.has(replace(endangers(danger, what, found[0].reason, shown), confirmed_by=confirmed))
