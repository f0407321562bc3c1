"""A test types every command of the README and of the task pages, or a table names the test that runs it."""

import config
from config import naming
from rehearsal.run.steps import PROTECTED, UNPROTECTED
from tests.rehearsal.run.readme import NOT_TYPED, PROD_DESTROY, PROD_UNPROTECTED, TYPED, readme_commands


def test_every_command_of_readme_and_task_pages_is_typed_or_said_why_not() -> None:
    assert set(readme_commands()) == TYPED | set(NOT_TYPED)


def test_commands_for_a_protected_environment_name_the_stacks_that_its_rehearsal_takes() -> None:
    prod = config.load("prod")
    for command, stacks in ((PROD_DESTROY, UNPROTECTED), (PROD_UNPROTECTED, PROTECTED)):
        named = [word for word in command.split() if word.startswith("rayhp-")]
        assert named == [naming.stack(prod, stack) for stack in stacks]
