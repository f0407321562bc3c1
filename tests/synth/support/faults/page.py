"""Write the page of the faults that were tried, and what they found."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from embedded_account.action_faults import ACTIONS, KINDS, MOMENTS
from tests.synth.support.faults.cases import ENDS
from tests.synth.support.faults.found import FOUND
from tests.synth.support.faults.walk import Result
from tests.synth.support.synthesis import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "reference" / "faults.md"


def write(results: Sequence[Result], *, seed: int, drawn: int, product: int, apps: Sequence[str]) -> None:
    """Write the page; `drawn` is the number of cases that the seed draws from all, the `product`."""
    PAGE.write_text("\n".join([*_lines(results, seed, drawn, product, apps), FOUND]))


def _lines(results: Sequence[Result], seed: int, drawn: int, product: int, apps: Sequence[str]) -> list[str]:
    types = {each.case.type for each in results}
    failed = [each for each in results if each.violation]
    unreached = [each for each in results if not each.reached]
    seconds = sum(each.seconds for each in results)
    return [
        "# Faults of every action",
        "",
        "`make test-faults` writes this page. In the embedded account it deploys the stacks of",
        f"{', '.join(f'`{app}`' for app in apps)} (`parts` has every part), and lets each action",
        "on each type of resource fail once before its effect and once after it. The seed draws the resource, the kind",
        "of fault and what follows. After each case the account must hold what it held before, each property as it",
        "was; a retry must succeed; protected data must stay; an event must name resource and cause. No Kubernetes",
        "runs, and CDK's functions are simulated; the handlers of HyperPod's cluster and of its guard are real.",
        "",
        "A deletion fails twice: with its stack's, and in the clean-up of an update that removes the resource. There",
        "CloudFormation tries three times: it deletes the resource in the end (`clean-up`), or leaves it and says so",
        "(`left`).",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, `make test-faults TEST_SEED={seed}`:",
        f"{len(results)} of the {drawn} cases that this seed draws from {product},",
        f"{len(types)} types, {len(failed)} violations, {len(unreached)} faults that did not happen,",
        f"{seconds / 60:.0f} minutes of one core.",
        "",
        f"| action | {' | '.join(MOMENTS)} | {' | '.join(KINDS)} | function's | violations |",
        f"|---|{'---|' * (len(MOMENTS) + len(KINDS) + 2)}",
        *(_row(action, [each for each in results if each.case.action == action]) for action in ACTIONS),
        "",
        "| what follows | create | update | delete |",
        "|---|---|---|---|",
        *(_ends(end, results) for end in dict.fromkeys(end for ends in ENDS.values() for end in ends)),
        "",
        *(["Violations:", "", *(f"- {each.case}: {each.violation}" for each in failed), ""] if failed else []),
        *(["Faults that did not happen:", "", *(f"- {each.case}" for each in unreached), ""] if unreached else []),
    ]


def _row(action: str, results: Sequence[Result]) -> str:
    moments = Counter[str](each.case.moment for each in results)
    faults = Counter[str](each.case.fault if each.case.fault in KINDS else "" for each in results)
    figures = [*(moments[each] for each in MOMENTS), *(faults[each] for each in KINDS), faults[""]]
    violations = sum(bool(each.violation) for each in results)
    return f"| {action} | {' | '.join(map(str, [*figures, violations]))} |"


def _ends(end: str, results: Sequence[Result]) -> str:
    counts = Counter[str](each.case.action for each in results if each.case.end == end)
    return f"| {end} | {' | '.join(str(counts[action] or '') for action in ACTIONS)} |"
