"""Fixtures of the synthesis tests: each environment is synthesised once for all workers, without validation."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.synth.support import variants
from tests.synth.support.synthesis import Assemblies, Assembly, Template, read, synthesise


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assemblies:
    """Return a function that returns the cloud assembly of an environment or of a variant by its name."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "assemblies"
    shared.mkdir(exist_ok=True)

    @cache
    def of(name: str) -> Assembly:
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            environment, made = variants.environment(name), shared / f"{name}.made"
            if not made.exists():
                scratch = tempfile.mkdtemp(prefix=f"{name}-", dir=shared)
                made.write_text(str(synthesise(environment, Path(scratch)).directory))
            return read(environment, Path(made.read_text()))

    return of


@pytest.fixture(scope="session")
def dev(assembly: Assemblies) -> Assembly:
    return assembly("dev")


@pytest.fixture(scope="session")
def prod(assembly: Assemblies) -> Assembly:
    return assembly("prod")


@pytest.fixture(scope="session")
def template(dev: Assembly) -> Callable[[str], Template]:
    """Return a function that returns a template of dev by its part: `template("network")`."""
    return lambda part: dev.templates[part]
