"""Every command of the README is one that a test types, or that is run otherwise."""

import re
import shlex

import config
from config import naming
from rehearsal.drills import DRILLS
from rehearsal.paths import REPOSITORY
from rehearsal.story.steps import PROTECTED, UNPROTECTED
from tests.rehearsal.story.readme import NOT_TYPED, PROD_DESTROY, PROD_UNPROTECTED, TYPED, readme_commands

LONGEST = "thousand-workers"
"""Eight minutes, and CI has 90 for everything."""


def test_every_command_of_the_readme_is_typed_here_or_said_why_not() -> None:
    assert set(readme_commands()) == TYPED | set(NOT_TYPED)


def test_ci_runs_the_readme_s_own_two_commands_all_drills_but_the_longest_then_types_the_others() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text().replace("\\\n", "")
    tiers = [words[0] for line in script.splitlines() if (words := re.findall(r"^tier '[^']+' (.+)$", line))]
    commands = [" ".join(shlex.split(command)) for tier in tiers for command in commands_of(tier)]
    drills = [command.removeprefix("make drill NAME=") for command in commands if command.startswith("make drill ")]
    assert sorted(" ".join(drills).split()) == sorted({*DRILLS} - {LONGEST})
    assert [command for command in commands if not command.startswith("make drill ")] == [
        *("make setup", "make test", "make rehearse"),
        *(f"make rehearse ENV={environment}" for environment in ("closed", "existing-vpc", "existing-eks")),
        *("make test-readme", "make setup-jobs", "make test-jobs", "make rehearse-job"),
    ]
    assert {"make test", "make rehearse"} <= set(readme_commands())
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"run: (.*\.ci/run.*)", workflow) == ["bash .ci/run"]


def commands_of(tier: str) -> list[str]:
    """What a tier runs: its one command, or those that are side by side."""
    first, *others = shlex.split(tier)
    return others if first == "side_by_side" else [tier]


def test_commands_for_a_protected_environment_name_the_stacks_that_its_rehearsal_takes() -> None:
    prod = config.load("prod")
    for command, stacks in ((PROD_DESTROY, UNPROTECTED), (PROD_UNPROTECTED, PROTECTED)):
        named = [word for word in command.split() if word.startswith("rayhp-")]
        assert named == [naming.stack(prod, stack) for stack in stacks]
