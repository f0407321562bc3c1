"""Building, with a Go that only pretends to: what a real one makes is what every other test here runs."""

import shutil
import sys
import threading
from pathlib import Path

import pytest

from config import versions
from rehearsal.kubernetes import binaries
from rehearsal.kubernetes.binaries import BinariesError

PROGRAMS = {
    "actionlint",
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
PRETENDER = """#!/bin/sh
case "$1" in
version) echo "go version go0 pretended" ;;
list) echo '{"Dir": "SOURCE"}' ;;
build)
  echo "$(basename "$PWD")" >> CALLS
  if [ "$(basename "$PWD")" = "$(cat BROKEN 2>/dev/null)" ]; then echo "undefined: sense"; exit 1; fi
  while [ "$1" != "-o" ]; do shift; done
  sleep 0.1
  for name in podserver actionlint ray-operator kwok server kube-apiserver kube-controller-manager kube-scheduler; do
    echo "$name" > "$2/$name"
  done ;;
esac
"""


class Go:
    """The pretended Go, in an environment of its own."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "bin" / "go"
        self.broken = directory / "broken"
        self._calls = directory / "calls"
        crds = directory / "source" / "config" / "crd" / "bases"
        crds.mkdir(parents=True)
        (crds / "ray.io_rayclusters.yaml").write_text("kind: CustomResourceDefinition\n")
        self.program.parent.mkdir()
        places = {"SOURCE": directory / "source", "CALLS": self._calls, "BROKEN": self.broken}
        text = PRETENDER
        for word, place in places.items():
            text = text.replace(word, str(place))
        self.program.write_text(text)
        self.program.chmod(0o755)

    @property
    def builds(self) -> list[str]:
        return self._calls.read_text().split() if self._calls.exists() else []


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "environment").mkdir()
    return Go(tmp_path / "environment")


def test_every_program_is_built_once_with_a_line_of_progress_each(tmp_path: Path, go: Go) -> None:
    lines: list[str] = []
    made = binaries.ensure(tmp_path / "cache", lines.append)
    assert go.builds == ["podserver", "actionlint", "kuberay", "kwok", "kubernetes"]
    assert [line.split(":")[0] for line in lines if " built in " in line] == ["kubectl and helm", *go.builds]
    assert {name for name in PROGRAMS if made[name].is_file()} == PROGRAMS
    assert made["etcd"].read_text() == "server\n"
    crds = binaries.kuberay_module_directory(made) / "config" / "crd" / "bases"
    assert [file.name for file in crds.iterdir()] == ["ray.io_rayclusters.yaml"]
    shutil.rmtree(tmp_path / "environment" / "source")
    assert binaries.ensure(tmp_path / "cache", lines.append) == made
    assert len(go.builds) == 5


def test_stopped_build_goes_on_where_it_was(tmp_path: Path, go: Go) -> None:
    go.broken.write_text("kubernetes")
    with pytest.raises(BinariesError):
        binaries.ensure(tmp_path / "cache", lambda _: None)
    go.broken.unlink()
    binaries.ensure(tmp_path / "cache", lambda _: None)
    assert go.builds == ["podserver", "actionlint", "kuberay", "kwok", "kubernetes", "kubernetes"]


def test_failed_build_names_the_module_its_programs_and_its_log(tmp_path: Path, go: Go) -> None:
    go.broken.write_text("kwok")
    with pytest.raises(
        BinariesError, match=r"building kwok \(kwok\) failed; its log: (\S+)\nundefined: sense"
    ) as error:
        binaries.ensure(tmp_path / "cache", lambda _: None)
    log = str(error.value).split("its log: ")[1].split()[0]
    assert Path(log).read_text() == "undefined: sense\n"


def test_two_builders_share_one_build(tmp_path: Path, go: Go) -> None:
    lines: list[str] = []
    builders = [threading.Thread(target=binaries.ensure, args=(tmp_path / "cache", lines.append)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert go.builds == ["podserver", "actionlint", "kuberay", "kwok", "kubernetes"]
    assert "waiting for another build of the same programs" in lines


def test_missing_go_is_one_clear_error(tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    go.program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesError, match=r"Go is missing: .* `make setup` installs it"):
        binaries.ensure(tmp_path / "cache", lambda _: None)


def test_another_go_is_another_build(tmp_path: Path, go: Go) -> None:
    before = binaries.build_key()
    go.program.write_text(go.program.read_text().replace("go0", "go1"))
    assert binaries.build_key() != before


def test_another_source_is_another_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modules = shutil.copytree(binaries.MODULES, tmp_path / "modules")
    monkeypatch.setattr(binaries, "MODULES", modules)
    before = binaries.build_key()
    with (modules / "podserver" / "main.go").open("a") as source:
        source.write("// changed\n")
    assert binaries.build_key() != before


def test_rehearsed_versions_are_those_that_are_deployed() -> None:
    """KubeRay 1.2.1 stands for 1.2.0, which module proxies do not serve; RayCluster's code is the same."""
    assert binaries.KUBERNETES_VERSION.startswith(f"v{versions.KUBERNETES_DEFAULT}.")
    assert binaries.KUBERAY_VERSION.rpartition(".")[0] == f"v{versions.KUBERAY}".rpartition(".")[0]
