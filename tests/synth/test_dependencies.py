"""What waits for what: the list of `stacks/dependencies.yaml`, and that nothing else makes a deployment longer."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import stacks
from config.facts.tables import read_table
from rehearsal.report import expected
from rehearsal.report.expected import Expectation
from rehearsal.report.timeline import Band
from rehearsal.run.steps import AT_ONCE
from tests.synth.support import slow_dependencies as found
from tests.synth.support.synthesis import Assemblies, Assembly
from tests.synth.support.variants import SLEEPING

LISTED = read_table(Path(stacks.__file__).with_name("dependencies.yaml"))
NAMES = ("dev", "prod", "slurm", SLEEPING)
PLACES = int(AT_ONCE[-1])
MOST = 1.05
"""How much longer than the longest listed chain it may take: quick resources, and stacks that wait for a place."""


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


def of(assembly: Assembly, *, destroy: bool, slow: bool = False) -> Expectation:
    """Return the expected time; with `slow`, of the listed dependencies alone: as if quick resources took no time."""
    bands, upstream = expected.declared(assembly.directory), expected.upstream(assembly.directory)
    if slow:
        bands = [Band(band.stack, found.slow_bars(band)) for band in bands]
    return (expected.expect_destroy if destroy else expected.expect)(bands, upstream, places=PLACES)


@pytest.mark.parametrize("destroy", [False, True], ids=["deploy", "destroy"])
@pytest.mark.parametrize("name", NAMES)
def test_the_documented_command_takes_hardly_longer_than_the_longest_listed_chain(
    assembly: Assemblies, name: str, destroy: bool
) -> None:
    """The commands of the pages have `--concurrency 3`."""
    makespan = of(assembly(name), destroy=destroy).typical.minutes
    chain = of(assembly(name), destroy=destroy, slow=True).chain
    assert chain <= makespan <= MOST * chain
