"""Compare two checkouts, and find what a deployment of each environment will do.

It needs no credentials: it synthesises both checkouts. It skips environments with equal inputs in both.
"""

import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from config import available
from ops.review.assembly import Assembly, Pair
from ops.review.checkouts import charts, owners
from ops.review.checkouts.cdk import ReviewError, cli
from ops.review.checkouts.content import changed_content
from ops.review.checkouts.inputs import ENVIRONMENTS, changed, fingerprint, own, removable_nodes
from ops.review.checkouts.progress import ReviewProgress
from ops.review.checkouts.syntheses import AT_ONCE, Checkouts, SynthesisFolders, synthesised, worker_threads
from ops.review.checkouts.tracked import require_sources
from ops.review.consequences import Thing
from ops.review.digests import digest
from ops.review.kubernetes.differences import notes as chart_notes
from ops.review.model import Compared, Danger, Effect, EnvironmentVerdict, Verdict
from ops.review.steps import operator_before
from ops.review.verdict import verdict_on

REPOSITORY: Final = Path(__file__).resolve().parents[2]


def review(
    base: Path,
    head: Path = REPOSITORY,
    context: Mapping[str, str] | None = None,
    *,
    environments: Collection[str] | None = None,
    handed_over: Path | None = None,
    console: Console | None = None,
) -> Verdict:
    """Return the verdict on all environments of both checkouts, the worst first.

    Args:
        base: The checkout to compare with, set up with `./setup.sh runtime`.
        head: The changed checkout, set up the same way.
        context: CDK context for both syntheses.
        environments: Only these. Default: all.
        handed_over: The folder of `head`'s assemblies by environment. `head` is then read as data, and needs no
            set-up.
        console: Where progress is printed.

    Raises:
        ReviewError: A checkout is not set up, lacks Helm charts or does not synthesise, no checkout has an
            environment, or git tracks in `head` what a program made.
    """
    for checkout in (base, head):
        _require_set_up(checkout, runs=checkout != head or handed_over is None)
    require_sources(head)
    before, after = (set(available(checkout / ENVIRONMENTS)) for checkout in (base, head))
    wanted = _wanted(environments, before | after)
    # Files may be edited during the syntheses: the verdict must not hold for the edited ones.
    compared = Compared(fingerprint(base), fingerprint(head), context or {}, wanted == before | after)
    content = changed_content(base, head)
    names = [name for name in changed(base, head) if name in wanted]
    checkouts = Checkouts(base, head, context or {}, handed_over)
    charts.require(checkouts, names)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ReviewProgress(console or Console(quiet=True)) as progress,
        worker_threads(AT_ONCE) as workers,
    ):
        unchanged = wanted & after - set(names)
        progress.say(f"environments with changed inputs: {', '.join(names) or 'none'}; unchanged: {len(unchanged)}")
        sides = synthesised(checkouts, names, Path(scratch), progress, workers)
        notes = [*filter(None, [owners.note(base) if content else ""])]
        found = list(_verdicts(checkouts, sides, progress, notes))
        found += [EnvironmentVerdict(name, synthesised=False) for name in unchanged]
    found += [_removed(base, name) for name in wanted & before - after]
    return Verdict(tuple(sorted(found, key=_worst_first)), tuple(dict.fromkeys(notes)), compared, content)


def _wanted(environments: Collection[str] | None, known: set[str]) -> set[str]:
    if environments is None:
        return known
    if unknown := sorted(set(environments) - known):
        raise ReviewError(
            f"no checkout has the environment {', '.join(unknown)}. Allowed: {', '.join(sorted(known))}. "
            "Fix: correct --env"
        )
    return set(environments)


def _verdicts(
    checkouts: Checkouts, sides: Iterator[SynthesisFolders], progress: ReviewProgress, notes: list[str]
) -> Iterator[EnvironmentVerdict]:
    for each in sides:
        with progress.step(f"{each.environment}: comparing", f"{each.environment}: compared"):
            base = Assembly(each.base) if each.base else None
            head = Assembly(each.head, foreign=checkouts.handed_over is not None)
            limit = removable_nodes(checkouts.base, each.environment)
            pair = Pair(each.environment, base, head, removable_nodes=limit)
            notes += chart_notes(pair)
            verdict = verdict_on(pair)
        yield verdict


def _removed(base: Path, name: str) -> EnvironmentVerdict:
    """Return the verdict on an environment whose file is removed: no deployment of `head` knows its stacks."""
    reason = "Its stacks stay until somebody destroys them."
    action = operator_before(f"run `ops destroy --env {name}` from a checkout that has its file")
    thing, lost = Thing("", f"Environment {name}", "environment"), frozenset({Danger.CLUSTER_LOSS})
    change = thing.change("its file is removed", Effect.KEPT, reason, action, dangers=lost)
    change = replace(change, digest=digest(name, change, own(base, name)))
    return EnvironmentVerdict(name, (change,), synthesised=False)


def _worst_first(environment: EnvironmentVerdict) -> tuple[int, bool, str]:
    gated = any(change.gated and not change.confirmed_by for change in environment.changes)
    return environment.effect.rank, not gated, environment.name


def _require_set_up(checkout: Path, *, runs: bool) -> None:
    if not available(checkout / ENVIRONMENTS):
        raise ReviewError(f"{checkout} has no environments/. Allowed: a checkout of this project")
    if runs and not cli(checkout).is_file():
        raise ReviewError(f"{checkout} has no CDK CLI. Fix: run `./setup.sh runtime` there")
