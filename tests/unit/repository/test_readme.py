"""A test types every command of every page, or a table names the test that runs its like, or the reason for none."""

import re
from itertools import chain
from pathlib import Path

import pytest

import config
from config import naming
from rehearsal.paths import REPOSITORY
from rehearsal.run.steps import PROTECTED, UNPROTECTED
from tests.rehearsal.run.first_day import DEPLOY, FIRST_DAY
from tests.rehearsal.run.readme import (
    NOT_TYPED,
    PAGES,
    PREFLIGHT,
    PROD_DESTROY,
    PROD_UNPROTECTED,
    REASONS,
    TYPED,
    commands,
)
from tests.unit.repository.pages import README, section
from tiers import TIERS

TYPED_OR_LISTED = [*TYPED, *chain.from_iterable(NOT_TYPED.values())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_command_of_a_page_is_typed_or_listed(page: Path) -> None:
    assert set(commands(page)) <= set(TYPED_OR_LISTED)


@pytest.mark.parametrize("page", FIRST_DAY)
def test_a_page_of_the_first_day_is_typed_in_its_order_and_leaves_out_only_what_is_listed(page: str) -> None:
    typed = list(dict.fromkeys(line.command for line in FIRST_DAY[page]))
    written = list(dict.fromkeys(commands(REPOSITORY / page)))
    assert typed == [command for command in written if command in typed]
    elsewhere = {line.command for other in FIRST_DAY if other != page for line in FIRST_DAY[other]}
    assert set(written) <= {*typed, *elsewhere, *chain.from_iterable(NOT_TYPED.values())}


def test_the_list_has_only_commands_of_pages_and_each_once() -> None:
    every = {command for page in PAGES for command in commands(page)}
    assert sorted(TYPED_OR_LISTED) == sorted(every)


@pytest.mark.parametrize("where", NOT_TYPED)
def test_a_command_that_is_not_typed_names_the_test_or_tier_that_runs_its_like_or_the_reason(where: str) -> None:
    tiers = {f"tier {tier.name}" for tier in TIERS}
    assert (REPOSITORY / where).is_file() or where in tiers or where in REASONS
    if where.startswith("tests/"):
        assert re.search(r"^def test_", (REPOSITORY / where).read_text(), re.MULTILINE)


def test_commands_for_a_protected_environment_name_the_stacks_that_its_rehearsal_takes() -> None:
    prod = config.load("prod")
    for command, stacks in ((PROD_DESTROY, UNPROTECTED), (PROD_UNPROTECTED, PROTECTED)):
        named = [word for word in command.split() if word.startswith("rayhp-")]
        assert named == [naming.stack(prod, stack) for stack in stacks]


def test_a_reader_learns_before_the_first_command_that_no_aws_account_has_run_this() -> None:
    before_commands = README.partition("```bash")[0]
    box = " ".join(line.removeprefix(">") for line in before_commands.splitlines() if line.startswith(">"))
    assert re.search(r"Proven by rehearsal on real Kubernetes, KubeRay and Ray; \*\*never\s+run on AWS\*\*", box)
    assert "docs/unverified-on-aws.md" in box


def test_a_section_of_the_readme_shows_the_command_that_passes_the_tests() -> None:
    assert "```bash\nmake test\n```" in section("Test")


def test_the_readme_looks_at_the_account_before_a_deployment_and_at_jobs_before_a_destroy() -> None:
    deploying = section("Deploy it")
    assert deploying.index(PREFLIGHT) < deploying.index(DEPLOY)
    assert "ops destroy --env dev" in section("Destroy it")


def test_the_readme_gives_no_duration_on_aws_as_a_fact() -> None:
    sentences = re.split(r"(?<=[.:])\s", re.sub(r"```.*?```", "", section("Deploy it"), flags=re.DOTALL))
    timed = [each for each in sentences if re.search(r"\b(hours?|minutes?)\b", each)]
    assert timed
    assert all("not measured" in " ".join(each.split()) for each in timed)


def test_tests_that_prove_what_a_user_gets_exist_and_are_run_by_ci() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    section = text.partition("\n## What is proven where\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:tests|packages)/[\w/-]+/test_\w+\.py)`", section)
    assert len(named) > 10
    for file in named:
        functions = re.split(r"^def test_", (REPOSITORY / file).read_text(), flags=re.MULTILINE)
        assert len(functions) > 1, file
        assert any("mark.long" not in before[-500:] for before in functions[:-1]), (
            f"{file}: only `make test-long` runs it"
        )
