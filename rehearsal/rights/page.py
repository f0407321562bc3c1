"""Write the page of rights: which a recorded decision needs, and which nobody exercises."""

from collections.abc import Iterable, Mapping
from typing import Final

from rehearsal.paths import REPOSITORY
from rehearsal.rights.kept import reason
from rehearsal.rights.replay import ATTACHED, Right, by_owner

PAGE: Final = REPOSITORY / "docs" / "reference" / "rights.md"
NO_REASON: Final = "no scenario yet"
TESTS: Final = "tests"
"""The name of the recording of tests; the others are rehearsals."""


def page(recordings: Mapping[str, Mapping[Right, bool]], run_on: str) -> str:
    """Return the page. `recordings` says what made each, and which rights it needs; `run_on` is their date."""
    needed: dict[Right, bool] = {}
    for recording in recordings.values():
        for right, is_needed in recording.items():
            needed[right] = needed.get(right, False) or is_needed
    rehearsals = [recording for name, recording in recordings.items() if name != TESTS]
    always = {right for right in needed if of_a_stack(right) and _is_always_needed(right, rehearsals)}
    killed = sum(needed.values())
    without = [right for right, is_needed in needed.items() if not is_needed and reason(right, needed) is None]
    kept = len(needed) - killed - len(without)
    lines = [
        "# Rights, and who exercises them",
        "",
        "`make test-rights` writes this page. It rehearses `dev`, `prod` and `slurm`, runs the tests of people's and",
        "workflows' commands, of the cluster's handlers and of Ray's pods, and records each decision about a right.",
        "Then it takes each action out of each statement of our policies, one at a time, and decides again. A right is",
        "*exercised* if a decision changes: without the right, that rehearsal or test is refused. Of the others, the",
        "last column says who calls with them, and where that is written. Rights of people are named by their role,",
        "the others by stack and construct. A policy of AWS counts as one right. In bold is what each of the three",
        "rehearsals needs whose stacks have it: CI's rehearsals fail if they no longer do.",
        "",
        f"Recorded by {', '.join(recordings)} on {run_on}: {len(needed)} rights, {killed} exercised, {kept} kept with",
        f"a reason, {len(without)} with {NO_REASON}.",
        "",
        "| owner | rights | exercised | not exercised |",
        "|---|---|---|---|",
    ]
    for owner, rights in by_owner(needed).items():
        exercised = ", ".join(_exercised(right, bold=right in always) for right in rights if needed[right])
        lines.append(f"| {owner} | {len(rights)} | {exercised} | {_kept(needed, rights)} |")
    return "\n".join(lines) + "\n"


def of_a_stack(right: Right) -> bool:
    """Return whether the right is that of a role or bucket of a stack, not of people."""
    return ": " in right.owner


def _is_always_needed(right: Right, rehearsals: Iterable[Mapping[Right, bool]]) -> bool:
    having = [recording[right] for recording in rehearsals if right in recording]
    return bool(having) and all(having)


def _exercised(right: Right, *, bold: bool) -> str:
    return f"**`{shown(right)}`**" if bold else f"`{shown(right)}`"


def shown(right: Right) -> str:
    """Return the right as the page names it, beside its owner."""
    return {"Allow": "", "Deny": "deny ", ATTACHED: "policy "}[right.effect] + right.action


def _kept(needed: Mapping[Right, bool], rights: list[Right]) -> str:
    reasons: dict[str, list[str]] = {}
    for right in rights:
        if not needed[right]:
            reasons.setdefault(reason(right, needed) or NO_REASON, []).append(f"`{shown(right)}`")
    return "; ".join(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items())
