"""The only test of `environments/` and `manifests/`, which belong to the user: it holds for any files there."""

import pytest

from config import EksEnvironment, available, examine, load_any
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
        environment = load_any(name, ENVIRONMENTS)
    assert not isinstance(environment, EksEnvironment) or manifests.render(environment)


def test_manifests_are_fresh() -> None:
    with reading():
        environments = [load_any(name, ENVIRONMENTS) for name in NAMES]
        with_manifests = [each for each in environments if isinstance(each, EksEnvironment)]
        stale = [path for each in with_manifests for path in manifests.stale(each, MANIFESTS)]
        stale += manifests.abandoned(NAMES, MANIFESTS)
    assert [str(path) for path in stale] == [], "run `make manifests` and commit what it writes"
