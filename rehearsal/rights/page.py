"""Write the page of rights: which a recorded decision needs, and which nobody exercises."""

from collections.abc import Iterable, Mapping
from typing import Final

from rehearsal.paths import REPOSITORY
from rehearsal.rights.kept import reason
from rehearsal.rights.replay import ATTACHED, Right, by_owner

PAGE: Final = REPOSITORY / "docs" / "reference" / "rights.md"
NO_REASON: Final = "no scenario yet"


def page(needed: Mapping[Right, bool], run_on: str, recorded_by: Iterable[str]) -> str:
    """Return the page. `run_on` is the date of the recordings, `recorded_by` what made them."""
    killed = sum(needed.values())
    without = [right for right, is_needed in needed.items() if not is_needed and reason(right, needed) is None]
    kept = len(needed) - killed - len(without)
    lines = [
        "# Rights, and who exercises them",
        "",
        "`make test-rights` writes this page. It rehearses `dev`, `prod` and `slurm`, runs the tests of people's and",
        "workflows' commands and of Ray's pods, and records each decision about a right. Then it takes each action out",
        "of each statement of our policies, one at a time, and decides again. A right is *exercised* if a decision",
        "changes: without the right, that rehearsal or test is refused. Of the others, the last column says who calls",
        "with them, and where that is written. Rights of people are named by their role, the others by stack and",
        "construct. A policy of AWS counts as one right.",
        "",
        f"Recorded by {', '.join(recorded_by)} on {run_on}: {len(needed)} rights, {killed} exercised, {kept} kept with",
        f"a reason, {len(without)} with {NO_REASON}.",
        "",
        "| owner | rights | exercised | not exercised |",
        "|---|---|---|---|",
    ]
    for owner, rights in by_owner(needed).items():
        exercised = ", ".join(f"`{_shown(right)}`" for right in rights if needed[right])
        lines.append(f"| {owner} | {len(rights)} | {exercised} | {_kept(needed, rights)} |")
    return "\n".join(lines) + "\n"


def _shown(right: Right) -> str:
    return {"Allow": "", "Deny": "deny ", ATTACHED: "policy "}[right.effect] + right.action


def _kept(needed: Mapping[Right, bool], rights: list[Right]) -> str:
    reasons: dict[str, list[str]] = {}
    for right in rights:
        if not needed[right]:
            reasons.setdefault(reason(right, needed) or NO_REASON, []).append(f"`{_shown(right)}`")
    return "; ".join(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items())
