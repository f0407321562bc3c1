"""`ops charts fetch` refuses charts that do not match the lock, with the reason."""

import hashlib
import subprocess
import urllib.error
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from config.facts import charts_lock
from config.facts.charts_lock import Archive, GitFolder
from ops.commands.whole import app

CONTENT = b"a chart"
CHART = Archive(
    name="kuberay-operator",
    version="1.2.0",
    url="https://charts.example.com/releases/kuberay-operator-1.2.0.tgz",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def fetch(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["charts", "fetch", *arguments])


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty cache."""
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the lock's charts."""

    def of(*charts: Archive | GitFolder) -> None:
        monkeypatch.setattr(charts_lock, "locked", lambda: charts)

    return of


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Return a mirror: a directory with the paths of the publishers' hosts."""
    (tmp_path / "mirror" / "releases").mkdir(parents=True)
    (tmp_path / "mirror" / "releases" / "kuberay-operator-1.2.0.tgz").write_bytes(CONTENT)
    return tmp_path / "mirror"


def test_a_chart_comes_from_the_mirror_once(cache: Path, lock: Callable[..., None], mirror: Path) -> None:
    lock(CHART)
    assert fetch("--mirror", mirror.as_uri()).stdout == "kuberay-operator 1.2.0: fetched and verified\n"
    assert (cache / CHART.file_name).read_bytes() == CONTENT
    assert fetch().stdout == "kuberay-operator 1.2.0: in the cache, verified\n"


def test_an_altered_chart_is_refused(cache: Path, lock: Callable[..., None], mirror: Path) -> None:
    lock(CHART)
    (mirror / "releases" / "kuberay-operator-1.2.0.tgz").write_bytes(b"something else")
    result = fetch("--mirror", mirror.as_uri())
    assert result.exit_code == 2
    other = hashlib.sha256(b"something else").hexdigest()
    says = (
        f"kuberay-operator: the fetched chart is {other}. Allowed: {CHART.sha256}. Fix: fetch it elsewhere (--mirror)\n"
    )
    assert result.stderr.endswith(says)
    assert list(cache.iterdir()) == []


def test_a_chart_that_was_altered_in_the_cache_is_fetched_again(
    cache: Path, lock: Callable[..., None], mirror: Path
) -> None:
    lock(CHART)
    cache.mkdir()
    (cache / CHART.file_name).write_bytes(b"altered")
    assert fetch("--mirror", mirror.as_uri()).exit_code == 0
    assert (cache / CHART.file_name).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "reason", [ConnectionRefusedError(111, "Connection refused"), TimeoutError("timed out")], ids=["refused", "timeout"]
)
def test_without_a_network_the_host_and_the_way_out_are_named(
    cache: Path, lock: Callable[..., None], monkeypatch: pytest.MonkeyPatch, reason: OSError
) -> None:
    lock(CHART)

    def unreachable(*_: object, **__: object) -> None:
        raise urllib.error.URLError(reason)

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    result = fetch()
    assert result.exit_code == 2
    assert result.stderr.endswith(
        f"kuberay-operator: cannot fetch it from charts.example.com ({CHART.url}): {reason}. "
        "Fix: give a mirror with --mirror, or retry with a network\n"
    )
    assert len(result.stderr.splitlines()) == 1
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("mirror_address", ["not an address", "http://127.0.0.1:1", "file:///nowhere"])
def test_a_wrong_mirror_is_named(cache: Path, lock: Callable[..., None], mirror_address: str) -> None:
    lock(CHART)
    result = fetch("--mirror", mirror_address)
    assert result.exit_code == 2
    assert mirror_address in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, GitFolder]:
    """Return a git repository that publishes a chart as a folder, and its entry in the lock."""
    repository = tmp_path / "git" / "aws" / "charts.git"
    (repository / "helm" / "Chart").mkdir(parents=True)
    (repository / "helm" / "Chart" / "Chart.yaml").write_text("name: chart\n")

    def git(*arguments: str) -> str:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        argv = ["git", "-C", str(repository), *author, *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "--quiet", "-m", "chart")
    return (
        tmp_path / "git",
        GitFolder(
            name="HyperPodHelmChart",
            version="0.1.0",
            repository="https://git.example.com/aws/charts.git",
            commit=git("rev-parse", "HEAD"),
            path="helm/Chart",
            tree=git("rev-parse", "HEAD:helm/Chart"),
        ),
    )


def test_a_chart_of_a_repository_is_taken_at_its_commit(
    cache: Path, lock: Callable[..., None], published: tuple[Path, GitFolder]
) -> None:
    base, chart = published
    lock(chart)
    result = fetch("--mirror", base.as_uri())
    assert result.exit_code == 0, result.output
    assert (cache / chart.file_name / "Chart.yaml").read_text() == "name: chart\n"


def test_a_missing_commit_is_reported_in_git_s_words(
    cache: Path, lock: Callable[..., None], published: tuple[Path, GitFolder]
) -> None:
    base, chart = published
    lock(chart.model_copy(update={"commit": "0" * 40}))
    result = fetch("--mirror", base.as_uri())
    assert result.exit_code == 2
    assert "HyperPodHelmChart: cannot fetch it from " in result.stderr
    assert "0" * 40 in result.stderr
    assert list(cache.iterdir()) == []


def test_without_git_it_says_so(
    cache: Path, lock: Callable[..., None], published: tuple[Path, GitFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, chart = published
    lock(chart)
    monkeypatch.setenv("PATH", "")
    result = fetch("--mirror", base.as_uri())
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "HyperPodHelmChart: git is not installed, and this download needs it. Fix: install git\n"
    )
