"""Answer a reviewer's first questions from the changes: whether it deploys, what ends, what is lost, who acts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ops.review import steps
from ops.review.cloudformation.kinds import KINDS, Holds
from ops.review.cloudformation.risks.protection import PROTECT
from ops.review.model import Change, ContentChange, Danger, Effect, EnvironmentVerdict, Verdict

Found = list[tuple[str, Change]]
"""Changes with their environments."""
_ENDING: Final = frozenset({Effect.ENDS_JOBS, Effect.NODES_REMOVED, Effect.NODES_REPLACED})
_GONE: Final = frozenset({Effect.DATA_LOST, Effect.DELETED, Effect.REPLACED})
_NEEDED_BY_JOBS: Final = frozenset({Danger.JOBS_REMOVED, Danger.CLUSTER_LOSS, Danger.DATA_LOSS})
_WITH_DATA: Final = [name for name, kind in KINDS.items() if kind.holds is Holds.DATA]
_SHOWN: Final = 4
_LONGEST: Final = 60


def headline(verdict: Verdict, approvals: int) -> str:
    """Return the verdict in few sentences; `approvals` is the number of changes that need one."""
    changes = list(_all(verdict))
    sentences = [*owners(verdict.content), *_lost_or_unguarded(changes)]
    if not any(change.effect is not Effect.NOTHING or change.gated for _, change in changes):
        sentences.append(f"Nothing that {'is declared' if verdict.content else 'runs'} changes.")
    if failing := dict.fromkeys(name for name, change in changes if _fails(change)):
        sentences.append(f"The deployment of {', '.join(failing)} fails as it stands.")
    if any(_ends_jobs(change) for _, change in changes):
        sentences.append("Jobs may end.")
    if not approvals:
        sentences.append(f"No {'other ' if verdict.content else ''}change needs an approval.")
    else:
        sentences.append(f"{approvals} change{' needs' if approvals == 1 else 's need'} an approval.")
    return " ".join(sentences)


def owners(content: Sequence[ContentChange]) -> Iterator[str]:
    """Yield the sentence that says what owners must read; nothing if no content differs."""
    if content:
        lines = sum(each.lines for each in content)
        kinds = ", ".join(dict.fromkeys(each.kind for each in content))
        read = f"owners must read {lines:,} line{'' if lines == 1 else 's'}"
        yield f"This pull request changes {kinds}: {read}: no rule knows all that they do."


def answers(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield each question's subject and its answer; nothing if no change is listed."""
    changes = list(_all(verdict))
    if all(change.effect is Effect.NOTHING and not change.gated for _, change in changes):
        return
    yield "Deployment", " ".join(_deployment(verdict)) or "this review finds nothing that makes it fail."
    nothing = "nothing that is declared" if verdict.content else "nothing"
    yield "Running jobs", " ".join(_jobs(changes)) or f"{nothing} ends them."
    yield (
        "Data",
        " ".join(_data(changes)) or ("nothing that is declared loses any." if verdict.content else "nothing is lost."),
    )
    yield "Before and after", _to_do(changes)


def _all(verdict: Verdict) -> Iterator[tuple[str, Change]]:
    for environment in verdict.environments:
        yield from ((environment.name, change) for change in environment.changes)


def _kind(change: Change) -> str:
    return change.resource.partition(" ")[0]


def _lost_or_unguarded(changes: Found) -> Iterator[str]:
    if lost := _those(changes, lambda change: change.effect is Effect.DATA_LOST):
        yield f"Data is lost: {_where(lost)}."
    lowered = _those(changes, lambda change: Danger.LOWER_PROTECTION in change.dangers)
    lifted = _those(lowered, lambda change: change.confirmed_by == PROTECT)
    for name in dict.fromkeys(name for name, _ in lifted):
        kept = [(_kind(change), change.title) for at, change in lifted if at == name and _kind(change) in _WITH_DATA]
        ordered = sorted(dict.fromkeys(kept), key=lambda each: _WITH_DATA.index(each[0]))
        deleted = _few([title for _, title in ordered], ", ", _LONGEST) or "its stacks"
        yield f"{name} loses its protection: the next destroy deletes {deleted}."
    if less := [each for each in lowered if each not in lifted]:
        yield f"Less protected: {_where(less)}."
    if public := _those(changes, lambda change: Danger.PUBLIC_ENDPOINT in change.dangers):
        yield f"Open to more of the Internet: {_where(public)}."


def _fails(change: Change) -> bool:
    return change.effect is Effect.REFUSED or bool(change.fails_unless)


def _ends_jobs(change: Change) -> bool:
    return change.effect in _ENDING or (change.effect in _GONE and bool(change.dangers & _NEEDED_BY_JOBS))


def _deployment(verdict: Verdict) -> Iterator[str]:
    for environment in verdict.environments:
        failing = [change for change in environment.changes if _fails(change)]
        for stack in dict.fromkeys(change.stack for change in failing):
            causes = [_cause(change) for change in failing if change.stack == stack]
            yield f"{environment.name} fails{_few(list(dict.fromkeys(causes)), '; ', 300)}."
            yield _rolled_back(environment, stack)


def _cause(change: Change) -> str:
    if change.fails_unless:
        return f" unless {change.fails_unless}"
    return f" on {change.title}"


def _rolled_back(environment: EnvironmentVerdict, stack: str) -> str:
    sentences = f"CloudFormation then rolls stack {stack} back"
    waiting = environment.dependents.get(stack, ())
    differing = [part for part in waiting if any(change.stack == part for change in environment.changes)]
    return (
        f"{sentences}, and the changes of stack {', '.join(differing)} are not deployed."
        if differing
        else f"{sentences}."
    )


def _jobs(changes: Found) -> Iterator[str]:
    if ending := _those(changes, _ends_jobs):
        yield f"may end or lose workers: {_where(ending)}."
    if later := _those(changes, lambda change: change.effect is Effect.NEEDS_ROLLOUT):
        yield f"end at the `ops rollout` after the deployment: {_where(later)}."
    if unknown := _those(changes, lambda change: change.effect is Effect.UNKNOWN):
        yield f"unknown: {_where(unknown)}."


def _data(changes: Found) -> Iterator[str]:
    if lost := _those(changes, lambda change: change.effect is Effect.DATA_LOST):
        yield f"lost: {_where(lost)}."
    if left := _those(changes, lambda change: Danger.DATA_LOSS in change.dangers and change.effect is Effect.KEPT):
        yield f"kept in the account, but no stack uses it: {_where(left)}."
    risky = {Effect.DATA_LOST, Effect.KEPT}
    if other := _those(changes, lambda change: Danger.DATA_LOSS in change.dangers and change.effect not in risky):
        yield f"at risk: {_where(other)}."
    if unknown := _those(changes, lambda change: change.effect is Effect.UNKNOWN):
        yield f"unknown: {_where(unknown)}."


def _to_do(changes: Found) -> str:
    sentences = {(name, step) for name, change in changes for step in change.action.split("\n") if step}
    number = Counter(
        next((who for who in (steps.AUTHOR, steps.BEFORE, steps.AFTER) if step.startswith(who)), "")
        for _, step in sentences
    )
    words = {
        steps.AUTHOR: "of the author",
        steps.BEFORE: "before the deployment",
        steps.AFTER: "after the deployment",
        "": "more",
    }
    counted = [
        f"{number[who]} step{'' if number[who] == 1 else 's'} {when}" for who, when in words.items() if number[who]
    ]
    return f"{', '.join(counted)}: the last column says which." if counted else "nothing to do."


def _those(changes: Found, holds: Callable[[Change], bool]) -> Found:
    return [(name, change) for name, change in changes if holds(change)]


def _where(found: Iterable[tuple[str, Change]]) -> str:
    """Return the things that change, with their environments."""
    titles: dict[str, dict[str, None]] = {}
    for name, change in found:
        titles.setdefault(name, {})[change.title] = None
    alike: dict[str, list[str]] = {}
    for name, named in titles.items():
        alike.setdefault(_few(list(named), ", ", _LONGEST), []).append(name)
    return "; ".join(f"{named} ({', '.join(names)})" for named, names in alike.items())


def _few(words: list[str], between: str, longest: int) -> str:
    """Return the first words, each cut, and the number of the others."""
    shown = [each if len(each) <= longest else f"{each[: longest - 1]}…" for each in words[:_SHOWN]]
    more = [f" and {len(words) - _SHOWN} more" if between == "; " else f"{len(words) - _SHOWN} more"]
    return between.join(shown + (more if len(words) > _SHOWN else []))
