"""Charts that are missing in the cache, or altered, fail with the command that fetches them."""

import hashlib
from pathlib import Path

import pytest

from config.facts import charts_lock
from config.facts.charts_lock import Archive
from embedded_account.context import Account
from ops.preflight.check import CheckStatus
from rehearsal.extensions import stand_in_marker
from tests.rehearsal.account.preflight.conftest import Preflight, said

pytestmark = pytest.mark.product

CONTENT = b"a chart"


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The place of the lock's only chart in the cache."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    chart = Archive(name="kuberay", version="1.2.0", url="https://charts.example.com/kuberay.tgz", sha256=digest)
    monkeypatch.setattr(charts_lock, "locked", lambda: (chart,))
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path))
    return tmp_path / chart.file_name


def test_charts_that_match_the_lock_pass(cached: Path, preflight: Preflight) -> None:
    cached.write_bytes(CONTENT)
    text = f"all 1 charts are in {cached.parent} and match the lock"
    assert said(preflight("chart")[""]) == (CheckStatus.PASS, text, "")


@pytest.mark.parametrize("content", [None, b"another"], ids=["missing", "altered"])
def test_a_missing_or_altered_chart_fails_with_the_command_that_fetches_it(
    cached: Path, preflight: Preflight, content: bytes | None
) -> None:
    if content:
        cached.write_bytes(content)
    text = f"missing or altered in {cached.parent}: kuberay 1.2.0"
    assert said(preflight("chart")[""]) == (CheckStatus.FAIL, text, "ops charts fetch")


def test_an_account_that_takes_stand_ins_only_warns(account: Account, cached: Path, preflight: Preflight) -> None:
    stand_in_marker.install(account)
    row = preflight("chart")[""]
    assert row.verdict is CheckStatus.WARN
    assert row.found.endswith("; this account takes stand-ins")
