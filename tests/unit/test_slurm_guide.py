"""The table of the Slurm guide's values: each has a verdict, each departure a reason, and the example agrees."""

import re

import pytest

import config
from config.load import EXAMPLES
from rehearsal.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "slurm-guide.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
JUDGED = [row for row in ROWS if len(row) == 3 and row[1] in {"same", "changed", "replaced"}]
TABLES = re.findall(r"^\| published \| \|", PAGE, re.MULTILINE)


def test_each_published_value_has_a_verdict() -> None:
    rows = [row for row in ROWS if len(row) == 3 and row[0] not in {"published", "---"}]
    assert rows == JUDGED
    assert len(TABLES) == 6
    assert len(JUDGED) > 75


@pytest.mark.parametrize("row", [row for row in JUDGED if row[1] != "same"], ids=lambda row: row[0][:40])
def test_each_departure_says_what_is_done_instead(row: list[str]) -> None:
    assert row[2]


def named(pattern: str) -> list[str]:
    """Return what the rows' own words quote and that has this form."""
    quoted = [text for row in JUDGED for text in re.findall(r"`([^`]+)`", row[2])]
    return sorted({text for text in quoted if re.fullmatch(pattern, text)})


def test_each_script_that_a_row_names_exists() -> None:
    scripts = named(r"[a-z_0-9]+\.(sh|sbatch)|users\.txt")
    assert len(scripts) >= 8
    folders = [REPOSITORY / "lifecycle_scripts/slurm", REPOSITORY / "ray_jobs/slurm"]
    assert [name for name in scripts if not any((folder / name).is_file() for folder in folders)] == []


def test_each_command_that_a_row_names_exists() -> None:
    commands = [text.split() for text in named(r"ops .+")]
    reference = (REPOSITORY / "docs/reference/commands.md").read_text()
    known = set(re.findall(r"^## (ops .+)$", reference, re.MULTILINE))
    assert len(commands) >= 6
    missing = [words for words in commands if not known & {" ".join(words[:2]), " ".join(words[:3])}]
    assert missing == []


def test_each_key_that_a_row_names_is_one_of_the_environment() -> None:
    keys = [text.partition(":")[0].rpartition(".") for text in named(r"(hyperpod|slurm|network|fsx)\.[a-z_.]+(: .+)?")]
    assert len(keys) >= 2
    reference = (REPOSITORY / "docs/reference/environment.md").read_text()
    for section, _, key in keys:
        [table] = [part for part in reference.split("\n## ") if part.startswith(f"`{section}`\n")]
        assert f"\n| `{key}` |" in table


def test_the_pages_endpoints_are_those_of_a_new_vpc() -> None:
    assert [row[1] for row in JUDGED if row[0] == "endpoints for S3 and DynamoDB"] == ["same"]
    assert 'for service in ("s3", "dynamodb")' in (REPOSITORY / "stacks/network/new_vpc.py").read_text()


def test_the_examples_values_are_those_of_the_page() -> None:
    groups = {
        group.name: group
        for group in config.load_as(config.SlurmEnvironment, "slurm", EXAMPLES).hyperpod.instance_groups
    }
    controller = groups["controller-machine"]
    assert (controller.instance_type, controller.count, controller.threads_per_core) == ("ml.c5.xlarge", 1, 1)
    [compute] = [group for group in groups.values() if group.slurm and group.slurm.node == "compute"]
    stated = f"`{compute.name}`, `{compute.instance_type}`, {compute.count}:"
    assert stated in PAGE
    assert compute.slurm
    assert ["partition `dev`", "same", ""] in JUDGED
    assert compute.slurm.partition == "dev"
    assert groups["login-group"].slurm
