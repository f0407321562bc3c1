"""What waits for what: the list of `stacks/dependencies.yaml`."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import stacks
from config.facts.tables import read_table
from rehearsal.report import expected
from tests.synth.support import slow_dependencies as found
from tests.synth.support.synthesis import Assemblies, Assembly

LISTED = read_table(Path(stacks.__file__).with_name("dependencies.yaml"))
NAMES = ("dev", "prod", "slurm")


def dependencies(assembly: Assembly) -> set[tuple[str, str]]:
    """Return the assembly's dependencies, each with its part, or `stacks`."""
    between = {("stacks", each) for each in found.between_stacks(assembly.directory)}
    return between.union(
        *(
            {(found.part(band.stack), each) for each in found.between_resources(band)}
            for band in expected.declared(assembly.directory)
        )
    )


def covers(part: str, row: str, dependency: tuple[str, str]) -> bool:
    return dependency[0] == part and fnmatchcase(dependency[1], row)


@pytest.mark.parametrize("name", NAMES)
def test_each_dependency_is_listed_with_what_it_buys(assembly: Assemblies, name: str) -> None:
    rows = [(part, row) for part, listed in LISTED.items() for row in listed]
    unlisted = {each for each in dependencies(assembly(name)) if not any(covers(*row, each) for row in rows)}
    assert not unlisted, "add what it buys to stacks/dependencies.yaml, or remove the dependency"


def test_each_listed_dependency_exists_and_says_what_it_buys(assembly: Assemblies) -> None:
    existing = set().union(*(dependencies(assembly(name)) for name in NAMES))
    for part, listed in LISTED.items():
        for row, buys in listed.items():
            assert any(covers(part, row, each) for each in existing), f"{part}: {row} is gone: remove it"
            assert buys
