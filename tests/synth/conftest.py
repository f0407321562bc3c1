"""Fixtures of the synthesis tests: each environment is synthesised once per session, without validation."""

from collections.abc import Callable
from functools import cache

import pytest

from config import load
from tests.synth.synthesis import Assembly, Template, synthesise

Assemblies = Callable[[str], Assembly]


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assemblies:
    """An environment's cloud assembly by the environment's name."""

    @cache
    def of(name: str) -> Assembly:
        return synthesise(load(name), tmp_path_factory.mktemp(name))

    return of


@pytest.fixture(scope="session")
def dev(assembly: Assemblies) -> Assembly:
    return assembly("dev")


@pytest.fixture(scope="session")
def prod(assembly: Assemblies) -> Assembly:
    return assembly("prod")


@pytest.fixture(scope="session")
def template(dev: Assembly) -> Callable[[str], Template]:
    """A template of dev by its part: `template("network")`."""
    return lambda part: dev.templates[part]
