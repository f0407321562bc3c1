"""Test that the account answers like AWS, where AWS publishes its answer, and that each difference is recorded."""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from embedded_account.context import Account
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.stacks import StackDeployer
from tests.account import published

WRITE = os.environ.get("WRITE_RESULTS") == "1"
RECORDED = published.recorded()


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, tuple[str, published.Answer]]]:
    """Collect the states; write the page of results at the end if WRITE_RESULTS is 1."""
    states: dict[str, tuple[str, published.Answer]] = {}
    yield states
    if not WRITE or set(states) != set(published.cases()):
        return
    counts = Counter(state for state, _ in states.values())
    summary = ", ".join(f"{number} {state}" for state, number in counts.most_common())
    lines = [f"{datetime.now(UTC):%Y-%m-%d}: {len(states)} requests: {summary}.\n"]
    lines += ["| case | state | AWS | the account | rule | source |", "|---|---|---|---|---|---|"]
    for id, (state, answer) in states.items():
        if state != published.SAME:
            case = published.cases()[id]
            given = (answer.code or "no code") if answer.refuses else "accepted"
            lines.append(f"| `{id}` | {state} | {case.expected} | {given} | {case.rule} | [page]({case.source}) |")
    published.RESULTS.write_text(published.HEAD + "\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def quick(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let clusters have a fake control plane, and simulated minutes pass at once."""
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    yield
    for name in clients("eks").list_clusters()["clusters"]:
        clients("eks").delete_cluster(name=name)


@pytest.mark.parametrize("id", published.cases())
def test_account_answers_like_aws_or_as_recorded(
    id: str,
    clients: Clients,
    stacks: StackDeployer,
    found: dict[str, tuple[str, published.Answer]],
) -> None:
    case = published.cases()[id]
    answer = published.Asker(clients, stacks).ask(case)
    state = published.state(case, answer)
    found[id] = (state, answer)
    if not WRITE:
        expected = RECORDED.get(id, published.SAME)
        assert state == expected, f"AWS: {case.expected} {case.aws}; the account: {answer}"


def test_each_recorded_difference_has_its_case() -> None:
    assert set(RECORDED) <= set(published.cases())
