"""Review what surrounds the resources: stacks, their settings, exports and the other sections of a template."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ops.review.assembly import AssemblyStack, Pair
from ops.review.cloudformation.risks.protection import PROTECT, protect_lifted
from ops.review.cloudformation.sides import TemplateComparison, renamed
from ops.review.cloudformation.values import leaves, listed, same, short
from ops.review.consequences import Thing, endangers
from ops.review.model import Change, Danger, Effect
from ops.review.steps import operator_after, operator_before

# Where the CDK CLI finds and uploads things; CloudFormation does not see them.
_CLI_SETTINGS: Final = frozenset(
    {
        "templateFile",
        "stackTemplateAssetObjectUrl",
        "additionalDependencies",
        "validateOnSynth",
        "requiresBootstrapStackVersion",
        "bootstrapStackVersionSsmParameter",
        "lookupRole",
        "stackName",
    }
)
_TEXTS: Final = frozenset({"Description", "Metadata", "AWSTemplateFormatVersion"})
# CDK's own check of the bootstrap stack: it refuses a deployment, and changes no resource.
_BOOTSTRAP: Final = {"Parameters": "BootstrapVersion", "Rules": "CheckBootstrapVersion"}
_HANDLED: Final = frozenset({"Resources", "Outputs"})


def changes(pair: Pair, sides: TemplateComparison) -> Iterator[Change]:
    """Yield a change for each stack that is new, gone or moved, and for what differs around its resources."""
    base = pair.base.stacks if pair.base else {}
    head = pair.head.stacks
    confirmed = PROTECT if protect_lifted(sides) else ""
    for part in dict.fromkeys([*base, *head]):
        if part not in head:
            yield _gone(base[part], pair.environment)
        elif part not in base:
            if pair.base:
                yield _change(head[part], "new", Effect.CREATED)
        else:
            yield from _settings(base[part], head[part], confirmed)
            yield from _sections(base[part], head[part])
    yield from _exports(sides, base, head)


def _thing(part: str) -> Thing:
    return Thing(part, f"Stack {part}", f"stack {part}")


def _change(stack: AssemblyStack, what: str, effect: Effect, reason: str = "", *dangers: Danger) -> Change:
    return _thing(stack.part).change(what, effect, reason, dangers=frozenset(dangers))


def _gone(stack: AssemblyStack, environment: str) -> Change:
    reason = "A deployment does not delete the stack: it stays as it is, with its costs, and nothing updates it."
    command = f"cdk destroy {stack.name} -c environment={environment}"
    action = operator_after(f"to delete it, run `{command}` from a checkout that still has it")
    lost = frozenset({Danger.CLUSTER_LOSS})
    return _thing(stack.part).change("removed", Effect.KEPT, reason, action, dangers=lost)


def _settings(before: AssemblyStack, after: AssemblyStack, confirmed: str) -> Iterator[Change]:
    old, new = before.settings, after.settings
    if before.name != after.name:
        reason = "CloudFormation knows stacks by name: it creates a new one, and the old one stays with its resources."
        yield _change(after, f"name {before.name} → {after.name}", Effect.KEPT, reason, Danger.CLUSTER_LOSS)
    for name in sorted(old.keys() | new.keys()):
        if name in _CLI_SETTINGS or same(old.get(name), new.get(name)):
            continue
        what = f"{name} {short(old.get(name))} → {short(new.get(name))}"
        if name == "terminationProtection":
            if not new.get(name):
                reason = "The stack can be deleted without another deployment."
                lowered = endangers(Danger.LOWER_PROTECTION, what, reason)
                yield _thing(after.part).has(replace(lowered, confirmed_by=confirmed))
            else:
                yield _change(after, what, Effect.IN_PLACE)
        elif name in ("tags", "notificationArns"):
            yield _change(after, what, Effect.IN_PLACE)
        elif name in ("assumeRoleArn", "environment"):
            reason = "The stack is deployed by another role, perhaps to another account or region."
            yield _change(after, what, Effect.UNKNOWN, reason, Danger.CLUSTER_LOSS)
        else:
            yield _change(after, what, Effect.UNKNOWN, "No rule knows this setting.", Danger.UNKNOWN)


def _sections(before: AssemblyStack, after: AssemblyStack) -> Iterator[Change]:
    for section in sorted(before.template.keys() | after.template.keys()):
        old, new = before.template.get(section), after.template.get(section)
        if section in _HANDLED or same(old, new):
            continue
        if section in _TEXTS:
            yield _change(after, f"{section} of the template", Effect.NOTHING)
        elif section in _BOOTSTRAP and same(*(_without(each, _BOOTSTRAP[section]) for each in (old, new))):
            yield _change(after, f"{_BOOTSTRAP[section]}, a check of the bootstrap stack", Effect.IN_PLACE)
        elif section == "Parameters" and all(path[-1] == "Description" for path, _, _ in leaves(old, new)):
            yield _change(after, "description of a parameter", Effect.NOTHING)
        else:
            what = f"{section}: {listed([_leaf(each) for each in leaves(old, new)], 2)}"
            reason = "It decides which resources exist, or with which values."
            yield _change(after, what, Effect.UNKNOWN, reason, Danger.UNKNOWN)


def _without(section: Any, name: str) -> dict[str, Any]:
    return {key: value for key, value in (section or {}).items() if key != name}


def _leaf(leaf: tuple[tuple[str, ...], object, object]) -> str:
    path, before, after = leaf
    return f"{'.'.join(path)} {short(before)} → {short(after)}"


def _exports(
    sides: TemplateComparison, base: Mapping[str, AssemblyStack], head: Mapping[str, AssemblyStack]
) -> Iterator[Change]:
    """Yield exports that CloudFormation refuses to remove or change, because a deployed stack imports them."""
    for name, (part, value) in sides.base.exports.items():
        if part not in head or base[part].name != head[part].name:
            continue
        old = renamed(sides.base.resolve(value, part), sides.renames)
        kept = sides.head.exports.get(name)
        if kept and kept[0] == part and same(old, sides.head.resolve(kept[1], part)):
            continue
        quoted = json.dumps(name)
        users = [each for each, stack in base.items() if each != part and quoted in json.dumps(stack.template)]
        what = f"export {name.rpartition(':')[2]} {'changes' if kept else 'is removed'}"
        if not users:
            yield _change(head[part], what, Effect.NOTHING)
            continue
        still = [each for each in users if each in head and quoted in json.dumps(head[each].template)]
        imports = f"Stack {', '.join(users)} imports it: CloudFormation refuses to remove or change it."
        if still or kept:
            yield _change(head[part], what, Effect.REFUSED, imports)
        else:
            others = " ".join(head[each].name for each in users if each in head)
            first = f"deploy {others} with --exclusively" if others else "destroy the importing stack"
            reason = "No stack imports it afterwards."
            yield _thing(part).change(what, Effect.IN_PLACE, reason, operator_before(first))
