"""Every command of the README is one that a test types, or that is run otherwise."""

import re

import config
from config import naming
from rehearsal.drills import DRILLS
from rehearsal.paths import REPOSITORY
from rehearsal.story.steps import PROTECTED, UNPROTECTED
from tests.rehearsal.story.readme import NOT_TYPED, PROD_DESTROY, PROD_UNPROTECTED, TYPED, readme_commands


def test_every_command_of_the_readme_is_typed_here_or_said_why_not() -> None:
    assert set(readme_commands()) == TYPED | set(NOT_TYPED)


def test_ci_runs_the_readme_s_own_two_commands_then_types_the_others() -> None:
    tiers = re.findall(r"^tier '[^']+' (.+)$", (REPOSITORY / ".ci" / "run").read_text(), re.MULTILINE)
    drills = f"make drill NAME='{' '.join(DRILLS)}'"
    assert tiers == ["make setup", "make test", "make rehearse", drills, "make test-readme"]
    assert {"make test", "make rehearse"} <= set(readme_commands())
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"run: (.*\.ci/run.*)", workflow) == ["bash .ci/run"]


def test_commands_for_a_protected_environment_name_the_stacks_that_its_rehearsal_takes() -> None:
    prod = config.load("prod")
    assert PROD_DESTROY.split()[2:-2] == [naming.stack(prod, stack) for stack in UNPROTECTED]
    assert PROD_UNPROTECTED.split()[2:-2] == [naming.stack(prod, stack) for stack in PROTECTED]
