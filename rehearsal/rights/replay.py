"""Take each right away, one at a time, and evaluate the recorded decisions again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from embedded_account.services.iam.policies import (
    PolicyDecision,
    decide_by_resource,
    evaluate,
)
from rehearsal.rights.recorded import AWS_POLICIES, PolicySet, RecordedDecision, Recording

ATTACHED: Final = "attached policy"


@dataclass(frozen=True, order=True)
class Right:
    """One action of one statement: the unit that is taken away.

    Attributes:
        owner: Whose policy it is in: a stack's part and its construct, or a kind of people.
        effect: Allow, Deny, or "attached policy" for a policy of AWS, which is taken away as a whole.
        action: The action as the statement writes it, or the name of AWS's policy.
        on: The kinds of resources of the statement.
        statement: The statement's Sid, which people's policies give; the same right of another statement is equal.
    """

    owner: str
    effect: str
    action: str
    on: str
    statement: str = field(default="", compare=False)

    def names(self, action: str) -> bool:
        """Return whether the right is about this action; of a policy of AWS, any may be."""
        return self.effect == ATTACHED or fnmatchcase(action.lower(), self.action.lower())


def replay(recordings: Iterable[Recording]) -> dict[Right, bool]:
    """Return for each right whether a recorded decision needs it."""
    needed: dict[Right, bool] = {}
    for recording in recordings:
        made_with: dict[tuple[str, str], list[RecordedDecision]] = defaultdict(list)
        for decision in recording.decisions:
            for key in decision.policies.items():
                made_with[key].append(decision)
        for key, policies in recording.policies.items():
            for right, without in _mutants(recording, key[0], policies):
                if not needed.get(right):
                    asked = (each for each in made_with[key] if right.names(each.action))
                    needed[right] = any(_changes(recording, key, without, each) for each in asked)
    return needed


def _mutants(recording: Recording, arn: str, policies: PolicySet) -> Iterator[tuple[Right, PolicySet]]:
    """Yield each right of a role or bucket, with its policies without this right."""
    for name, policy in policies.items():
        owner = recording.owner(arn, name)
        if owner is None:
            continue
        if name.startswith(AWS_POLICIES):
            others = {other: each for other, each in policies.items() if other != name}
            yield Right(owner, ATTACHED, name.removeprefix(AWS_POLICIES).rpartition("/")[2], ""), others
            continue
        statements = _listed(policy["Statement"])
        for index, statement in enumerate(statements):
            on = ", ".join(sorted({_kind(resource) for resource in _listed(statement.get("Resource", []))}))
            actions = _listed(statement["Action"])
            for action in actions:
                left = {**statement, "Action": [other for other in actions if other != action]}
                mutated = [*statements[:index], *([left] if left["Action"] else []), *statements[index + 1 :]]
                right = Right(owner, statement["Effect"], action, on, statement.get("Sid", ""))
                yield right, {**policies, name: {"Statement": mutated}}


def _changes(recording: Recording, key: tuple[str, str], without: PolicySet, decision: RecordedDecision) -> bool:
    """Return whether a decision of the recording ends otherwise with other policies of one role or bucket."""
    outcomes = set()
    for each in decision.policies.items():
        policies = without if each == key else recording.policies[each]
        outcomes.add(_outcome(each[0], policies, decision))
    if PolicyDecision.EXPLICIT_DENY in outcomes:
        return decision.outcome != PolicyDecision.EXPLICIT_DENY.name
    allowed = PolicyDecision.ALLOW in outcomes and _within_boundary(recording, decision)
    return allowed != (decision.outcome == PolicyDecision.ALLOW.name)


def _within_boundary(recording: Recording, decision: RecordedDecision) -> bool:
    """Return whether the caller's permissions boundary, which is the company's own, allows the action."""
    boundaries = (recording.policies[each].values() for each in decision.boundary.items())
    decided = (evaluate(each, decision.action, decision.resource, decision.context) for each in boundaries)
    return all(each is PolicyDecision.ALLOW for each in decided)


def _outcome(arn: str, policies: PolicySet, decision: RecordedDecision) -> PolicyDecision:
    action, resource, context = decision.action, decision.resource, decision.context
    if not arn.startswith("arn:aws:s3:::"):
        return evaluate(policies.values(), action, resource, context)
    caller = next(each for each in decision.policies if each != arn)
    [policy] = policies.values()
    return decide_by_resource(policy, {caller, "*"}, action, resource, context)


def _kind(resource: str) -> str:
    """Return the kind of a resource, such as "ec2 subnet": no name of an environment, no id."""
    if resource == "*":
        return resource
    _, _, service, _, _, rest = resource.split(":", 5)
    if service == "s3":
        return "s3 objects" if "/" in rest else "s3 bucket"
    return f"{service} {rest.replace('/', ':').split(':')[0]}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def by_owner(needed: Mapping[Right, bool]) -> dict[str, list[Right]]:
    """Return the rights of each owner, in order."""
    found: dict[str, list[Right]] = defaultdict(list)
    for right in sorted(needed):
        found[right.owner].append(right)
    return found
