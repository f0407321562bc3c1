"""The only test of `environments/` and `manifests/`, which belong to the user: it holds for any files there."""

import pytest

from config import available, examine, load
from ops.render import manifests
from tests.support.users_files import ENVIRONMENTS, MANIFESTS, reading

with reading():
    NAMES = available(ENVIRONMENTS)


@pytest.mark.parametrize("name", NAMES)
def test_each_environment_is_valid(name: str) -> None:
    with reading():
        assert [str(error) for error in examine(name, ENVIRONMENTS).errors] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_environment_renders(name: str) -> None:
    with reading():
        environment = load(name, ENVIRONMENTS)
    assert manifests.render(environment)


def test_manifests_are_fresh() -> None:
    with reading():
        stale = [path for name in NAMES for path in manifests.stale(load(name, ENVIRONMENTS), MANIFESTS)]
        stale += manifests.abandoned(NAMES, MANIFESTS)
    assert [str(path) for path in stale] == [], "run `make manifests` and commit what it writes"
