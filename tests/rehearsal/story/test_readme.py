"""Every command of the README is one that a test types, or that is run otherwise."""

import re

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
    tiers = [" ".join(tier.split()) for tier in re.findall(r"^tier '[^']+' (.+)$", script, re.MULTILINE)]
    drills = [tier for tier in tiers if tier.startswith("make drill ")]
    assert sorted(" ".join(re.findall(r"NAME='(.+)'", "\n".join(drills))).split()) == sorted({*DRILLS} - {LONGEST})
    assert [tier for tier in tiers if tier not in drills] == [
        *("make setup", "make test", "make rehearse", "rehearse_side_by_side closed existing-vpc existing-eks"),
        *("make test-readme", "make setup-jobs", "make test-jobs", "make rehearse-job"),
    ]
    assert {"make test", "make rehearse"} <= set(readme_commands())
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"run: (.*\.ci/run.*)", workflow) == ["bash .ci/run"]


def test_commands_for_a_protected_environment_name_the_stacks_that_its_rehearsal_takes() -> None:
    prod = config.load("prod")
    assert PROD_DESTROY.split()[2:-2] == [naming.stack(prod, stack) for stack in UNPROTECTED]
    assert PROD_UNPROTECTED.split()[2:-2] == [naming.stack(prod, stack) for stack in PROTECTED]
