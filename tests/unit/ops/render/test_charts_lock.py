"""The pinned Helm charts: only content that matches the lock is fetched, cached or unpacked."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from config.facts import charts_lock, versions
from config.facts.charts_lock import Archive, ChartError, GitFolder
from embedded_account.kubernetes.building import kubectl_layer
from ops.render import charts

# The output of a sub-chart that exists both as an archive and as a folder.
AS_FOLDER, AS_ARCHIVE = "the folder", "the stale archive"
CHART = "apiVersion: v2\nname: {name}\nversion: 1.0.0\n"
FOLDER = {
    "Chart.yaml": CHART.format(name="folder")
    + "dependencies:\n- {name: dependency, version: 1.0.0}\n- {name: unwanted, version: 2.0.0}\n",
    "charts/own/Chart.yaml": CHART.format(name="own"),
    "charts/own/templates/form.yaml": f"form: {AS_FOLDER}\n",
    "charts.md": "a name that git sorts before the folder charts/",
    "templates/script.sh": "#!/bin/sh\n",
}


def archive_of(name: str, **further: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file, content in {"Chart.yaml": CHART.format(name=name), **further}.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Publishers:
    """A folder that replaces the publishers' hosts; `--mirror` points at it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mirror = root.as_uri()
        self.archives = [self._publish("alone"), self._publish("dependency")]
        self.folder = self._publish_folder()

    def path(self, name: str) -> Path:
        return self.root / "charts" / f"{name}.tgz"

    def _publish(self, name: str) -> Archive:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(archive_of(name))
        digest = hashlib.sha256(self.path(name).read_bytes()).hexdigest()
        return Archive(name=name, version="1.0.0", url=f"https://charts.example/charts/{name}.tgz", sha256=digest)

    def _publish_folder(self) -> GitFolder:
        repository = self.root / "owner" / "repository.git"
        for name, content in FOLDER.items():
            file = repository / "helm" / "folder" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        (repository / "helm" / "folder" / "templates" / "script.sh").chmod(0o755)
        stale = archive_of("own", **{"templates/form.yaml": f"form: {AS_ARCHIVE}\n"})
        (repository / "helm" / "folder" / "charts" / "own-1.0.0.tgz").write_bytes(stale)
        git(repository, "init", "--quiet")
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "-m", "chart")
        git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
        return GitFolder(
            name="folder",
            version="1.0.0",
            repository="https://git.example/owner/repository.git",
            commit=git(repository, "rev-parse", "HEAD"),
            path="helm/folder",
            tree=git(repository, "rev-parse", "HEAD:helm/folder"),
            dependencies=(self.archives[1],),
            dropped_dependencies=("unwanted",),
            dropped_archives=("own-1.0.0.tgz",),
        )


@pytest.fixture
def publishers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publishers:
    publishers = Publishers(tmp_path / "hosts")
    lock = (publishers.archives[0], publishers.folder)
    monkeypatch.setattr(charts_lock, "locked", lambda: lock)
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "cache"))
    return publishers


@pytest.fixture
def cache(publishers: Publishers) -> Path:
    """Return a cache that contains every chart of the lock."""
    assert len(list(charts.fetch(publishers.mirror))) == 3
    return charts_lock.cache_directory()


def test_lock_pins_every_chart_by_what_its_publisher_gave() -> None:
    names = {chart.name for chart in charts_lock.locked()}
    assert names == {"kuberay-operator", "aws-fsx-csi-driver", "HyperPodHelmChart"}
    hyperpod = charts_lock.find("HyperPodHelmChart")
    assert isinstance(hyperpod, GitFolder)
    assert {dependency.name for dependency in hyperpod.dependencies} == {
        "nvidia-device-plugin",
        "aws-efa-k8s-device-plugin",
    }
    assert hyperpod.dropped_dependencies == ("cert-manager",)


def test_every_version_of_kuberay_that_can_be_chosen_is_locked_and_the_default_first() -> None:
    locked = [chart for chart in charts_lock.locked() if chart.name == "kuberay-operator"]
    assert [chart.version for chart in locked] == list(versions.KUBERAY_VERSIONS)
    assert charts_lock.find("kuberay-operator").version == versions.KUBERAY
    assert len({chart.digest for chart in locked}) == len({chart.file_name for chart in locked}) == len(locked)


def test_a_version_that_is_not_locked_names_those_that_are(publishers: Publishers) -> None:
    with pytest.raises(ChartError, match=r"alone 2\.0\.0: is not in the lock\. Allowed: alone 1\.0\.0, folder 1\.0\.0"):
        charts_lock.find("alone", "2.0.0")


def test_git_identifies_a_folder_as_the_lock_does(publishers: Publishers) -> None:
    folder = publishers.root / "owner" / "repository.git" / "helm" / "folder"
    assert charts_lock.git_tree(folder) == publishers.folder.tree


def test_fetched_charts_are_taken_from_the_cache_from_then_on(cache: Path, publishers: Publishers) -> None:
    lines = list(charts.fetch("https://nowhere.invalid"))
    assert all("in the cache, verified" in line for line in lines)
    assert not [path for path in cache.iterdir() if path.name.startswith("tmp")]


def test_a_rehearsal_can_ask_whether_the_publishers_charts_are_there(publishers: Publishers) -> None:
    assert not charts_lock.all_cached()
    list(charts.fetch(publishers.mirror))
    assert charts_lock.all_cached()
    (charts_lock.cache_directory() / "dependency-1.0.0.tgz").unlink()
    assert not charts_lock.all_cached()


def test_unpacked_folder_has_its_dependencies_and_not_the_dropped_one(cache: Path, tmp_path: Path) -> None:
    chart = charts_lock.unpack("folder", tmp_path / "out")
    assert (chart / "charts" / "dependency-1.0.0.tgz").is_file()
    assert (chart / "charts" / "own" / "Chart.yaml").is_file()
    assert [d["name"] for d in YAML(typ="safe").load(chart / "Chart.yaml")["dependencies"]] == ["dependency"]


def test_a_sub_chart_in_both_forms_renders_its_folder_every_time(cache: Path, tmp_path: Path) -> None:
    """With both forms, Helm takes the first one that a Go map happens to return."""
    kubectl_layer.unpack(["helm"], tmp_path)
    rendered = set()
    for n in range(10):
        chart = charts_lock.unpack("folder", tmp_path / str(n))
        command = [str(tmp_path / "helm"), "template", "release", str(chart)]
        rendered.add(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    [only] = rendered
    assert AS_FOLDER in only
    assert AS_ARCHIVE not in only


@pytest.mark.parametrize("recorded", [(), ("own-1.0.0.tgz", "another-1.0.0.tgz")])
def test_what_is_dropped_is_what_the_lock_records(
    cache: Path, publishers: Publishers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: tuple[str, ...]
) -> None:
    changed = publishers.folder.model_copy(update={"dropped_archives": recorded})
    monkeypatch.setattr(charts_lock, "locked", lambda: (changed,))
    with pytest.raises(ChartError, match=r"folder: .*own-1\.0\.0\.tgz.*dropped_archives"):
        charts_lock.unpack("folder", tmp_path)


def test_fetching_reports_what_packing_drops(publishers: Publishers) -> None:
    for said in ("fetched and verified", "in the cache, verified"):
        lines = list(charts.fetch(publishers.mirror))
        assert lines[-1] == f"folder 1.0.0: {said}; packed without unwanted, charts/own-1.0.0.tgz"
        assert "packed" not in "".join(lines[:-1])


@pytest.mark.parametrize("name", ["alone", "folder"])
def test_unpacking_twice_gives_the_same_files(cache: Path, tmp_path: Path, name: str) -> None:
    first, second = (charts_lock.unpack(name, tmp_path / out) for out in ("one", "two"))
    assert charts_lock.git_tree(first) == charts_lock.git_tree(second)


def test_missing_chart_names_the_command_that_brings_it(publishers: Publishers, tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"alone: .*does not exist\. Fix: `ops charts fetch`"):
        charts_lock.unpack("alone", tmp_path)


@pytest.mark.parametrize(
    ("chart", "altered"),
    [
        ("alone", "alone-1.0.0.tgz"),
        ("folder", "dependency-1.0.0.tgz"),
        ("folder", "folder-{commit}/templates/script.sh"),
        ("folder", "folder-{commit}/added.yaml"),
    ],
)
def test_altered_chart_is_refused(
    cache: Path, publishers: Publishers, tmp_path: Path, chart: str, altered: str
) -> None:
    path = cache / altered.format(commit=publishers.folder.commit[:12])
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"x")
    with pytest.raises(ChartError, match="was altered"):
        charts_lock.unpack(chart, tmp_path / "out")
    assert any("fetched and verified" in line for line in charts.fetch(publishers.mirror))
    charts_lock.unpack(chart, tmp_path / "again")


def test_a_mode_that_changed_is_an_altered_chart(cache: Path, publishers: Publishers, tmp_path: Path) -> None:
    (cache / publishers.folder.file_name / "templates" / "script.sh").chmod(0o644)
    with pytest.raises(ChartError, match="was altered"):
        charts_lock.unpack("folder", tmp_path)


def test_other_content_from_the_host_is_refused(publishers: Publishers) -> None:
    publishers.path("alone").write_bytes(archive_of("other"))
    with pytest.raises(ChartError, match=r"alone: the fetched chart is .*\. Allowed: "):
        list(charts.fetch(publishers.mirror))
    assert list(charts_lock.cache_directory().iterdir()) == []


@pytest.mark.parametrize("gone", ["charts", "owner"])
def test_unreachable_host_is_named(publishers: Publishers, gone: str) -> None:
    (publishers.root / gone).rename(publishers.root / "away")
    with pytest.raises(
        ChartError, match=r"cannot fetch it from .*\. Fix: give a mirror with --mirror, or retry with a network"
    ):
        list(charts.fetch(publishers.mirror))


def test_a_host_that_does_not_exist_is_named(publishers: Publishers) -> None:
    with pytest.raises(ChartError, match=r"cannot fetch it from localhost:1 \(http://localhost:1/charts/alone.tgz\)"):
        list(charts.fetch("http://localhost:1"))


def test_chart_that_is_not_locked_is_an_error(publishers: Publishers, tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"unknown: is not in the lock\. Allowed: alone 1\.0\.0, folder 1\.0\.0"):
        charts_lock.unpack("unknown", tmp_path)
