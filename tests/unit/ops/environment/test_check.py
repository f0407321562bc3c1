"""`ops check`, and how all commands refuse an invalid environment."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import config
from config.estimates import costs
from config.load import DIRECTORY
from config.model.hyperpod import Sleep
from config.rules import ALL_RULES
from ops import cli
from ops.commands.whole import app
from ops.environment import check, schema
from tests.support.generated_environments import read_from
from tests.support.sleeping_environment import with_sleep
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.support.findings import line_of

COMMANDS = ("check", "wait", "status", "manifests")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory of environments that replaces the committed one."""
    read_from(tmp_path, monkeypatch)
    return tmp_path


def test_check_shows_every_environment_with_its_cost() -> None:
    result = run("check")
    assert result.exit_code == 0, result.output
    for name in config.available():
        assert f"{name}: account " in result.stdout
        total = sum(line.usd_per_hour or 0 for line in costs.estimate(config.load_any(name)))
        assert f"{total:,.2f}" in result.stdout


def test_check_shows_what_dev_will_be() -> None:
    lines = [" ".join(line.split()) for line in run("check", "--env", "dev").stdout.splitlines()]
    assert "worker-group-1 ml.p5.48xlarge usw2-az2 4 384 32 128 324" in lines
    assert "nodes usw2-az2 10.192.64.0/18 401 16,379" in lines
    assert "FSx for Lustre new, 1,200 GiB, 292 MB/s; claim fsx-claim at /fsx" in lines
    assert "rayml gpu-group 4 90 1,807 8 32" in lines
    assert f"On-demand prices of us-west-2 as of {costs.prices()['date']}" in " ".join(lines)


def test_numbers_are_aligned() -> None:
    lines = run("check", "--env", "dev").stdout.splitlines()
    rows = [line for line in lines if line.startswith(("head-group: ", "worker-group-1: ", "total"))]
    assert len({len(row.rstrip()) for row in rows}) == 1


def test_a_group_that_sleeps_shows_what_it_costs_asleep() -> None:
    console = Console(width=200, record=True)
    console.print(check._costs(with_sleep(config.load("dev"), Sleep(min=1))))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    lines = [line for line in lines if line.startswith(("cost", "head-group", "worker-group-1", "total"))]
    assert lines == [
        "cost US$ per hour asleep",
        "head-group: 1 x ml.m5.2xlarge 0.46 0.46",
        "worker-group-1: 4 x ml.p5.48xlarge 253.18 63.30",
        "total 254.52 64.63",
    ]


def test_an_unknown_price_is_not_shown_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = costs.prices()
    monkeypatch.setattr(costs, "prices", lambda: prices | {"instances": {}})
    assert "no price" in run("check", "--env", "small").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_environment_names_the_existing_ones(command: str) -> None:
    result = run(command, "--env", "staging")
    assert result.exit_code == 2
    said = "environments/staging.yaml: environment 'staging' is invalid: there is no such file. Allowed: "
    assert f"{said}{config.allowed_names()}. Fix: " in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_yaml_is_named_with_its_line(command: str, environments: Path) -> None:
    (environments / "broken.yaml").write_text("project: a\nregion: [a\n")
    result = run(command, "--env", "broken")
    assert result.exit_code == 2
    assert "broken.yaml:3: the syntax is invalid: " in result.stderr
    assert "Traceback" not in result.output


def test_all_findings_of_an_environment_are_reported_at_once(environments: Path) -> None:
    (environments / "empty.yaml").write_text("project: rayhp\nzone: [bold]\n")
    result = run("check", "--env", "empty")
    assert result.exit_code == 2
    for key in ("1 account: (missing)", "1 region: (missing)", "2 zone: key 'zone'"):
        assert f"empty.yaml:{key} is invalid: " in result.stderr


def test_a_message_is_printed_unchanged_including_brackets(environments: Path) -> None:
    (environments / "odd.yaml").write_text('region: "[bold]west[/]"\n')
    assert "region: '[bold]west[/]' is invalid" in run("check", "--env", "odd").stderr


def test_help_names_every_command() -> None:
    result = run("--help", "--all")
    assert result.exit_code == 0
    for command in (*COMMANDS, "charts", "review"):
        assert f" {command} " in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [("check", "--enviroment", "dev"), ("deploy",), ("wait", "--env", "dev", "--timeout", "soon")],
)
def test_a_wrong_command_line_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_check_loads_neither_the_aws_sdk_nor_another_commands_module() -> None:
    """Users run `ops check` after each edit, so it must be quick."""
    code = """import sys, ops.__main__
ops.__main__.guard.application(["check", "--env", "dev"])
print({"boto3", "kubernetes", "jsii", "ops.commands.whole", "ops.commands.operate"} & set(sys.modules))"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert result.stdout == "set()\n"


def test_existing_resources_cost_nothing_and_are_named() -> None:
    output = run("check", "--env", "existing-eks").stdout
    assert "in the existing VPC vpc-0e5c1a7f93d24b680 (10.216.0.0/16)" in output
    assert "EKS control plane" not in output
    assert "NAT gateways" not in output


def test_an_accepted_warning_is_shown_with_its_reason() -> None:
    lines = " ".join(run("check", "--env", "dev").stdout.split())
    for rule, reason in config.load("dev").accepted_warnings.items():
        assert f"[{rule}]: {reason}" in lines


def test_a_copied_environment_names_the_pair_on_stderr(environments: Path) -> None:
    text = (DIRECTORY / "small.yaml").read_text()
    for name in ("one", "two"):
        (environments / f"{name}.yaml").write_text(text)
    result = run("check", "--env", "one")
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    shared = "hyperpod.cluster_name: 'ml-cluster-small' is invalid: environment 'two' already uses it"
    line = line_of(environments / "one.yaml", ("hyperpod", "cluster_name"))
    assert [each for each in lines if f"one.yaml:{line} {shared}" in each]
    said = "error: two environments in one account and region use the same name: one and two. "
    assert lines[-1] == f"{said}Fix: rename one of each pair"
    assert run("check").stderr.splitlines()[-1] == lines[-1]


def test_one_broken_file_does_not_hide_the_others(environments: Path) -> None:
    text = (DIRECTORY / "small.yaml").read_text()
    (environments / "a.yaml").write_text("project: [\n")
    (environments / "b.yaml").write_text(text.replace("count: 2", "count: two"))
    (environments / "c.yaml").write_text(text)
    result = run("check")
    assert result.exit_code == 2
    assert "a.yaml:2: the syntax is invalid" in result.stderr
    line = line_of(environments / "b.yaml", ("hyperpod", "instance_groups", 1, "count"))
    assert f"b.yaml:{line} hyperpod.instance_groups.1 (worker-group-1).count: 'two' is invalid" in result.stderr
    assert "c: account 111122223333" in result.stdout
    assert run("manifests", "--check").stderr.count("is invalid") == 2


@pytest.mark.parametrize("given", ["small", "small.yaml", "small.yml", "environments/small.yaml"])
def test_an_environment_can_be_named_by_its_file(given: str) -> None:
    result = run("check", "--env", given)
    assert result.exit_code == 0, result.output
    assert "small: account " in result.stdout
    assert config.load_any(given) == config.load("small")


@pytest.mark.parametrize("name", config.examples())
def test_an_example_is_valid_and_used_unless_the_user_has_an_environment_of_its_name(
    environments: Path, name: str
) -> None:
    result = run("check", "--env", name)
    assert result.exit_code == 0, result.output
    assert f"{name}: account " in result.stdout
    assert config.load_any(name, environments).name == name


def test_an_environment_overrides_the_example_of_its_name(environments: Path) -> None:
    text = (DIRECTORY / "small.yaml").read_text()
    (environments / "small.yaml").write_text(text.replace("ml-cluster-small", "my-own-cluster"))
    assert config.load("small", environments).hyperpod.cluster_name == "my-own-cluster"


def test_names_that_are_allowed_are_the_users_and_the_examples(environments: Path) -> None:
    for name in ("mine", "small"):
        (environments / f"{name}.yaml").write_text("")
    others = "; examples: closed, existing-eks, existing-vpc, slurm. Fix: "
    assert f"Allowed: mine, small{others}" in run("check", "--env", "nowhere").stderr
    assert config.available(environments) == ["mine", "small"]


def test_all_environments_are_the_users_without_the_examples(environments: Path) -> None:
    shutil.copy2(DIRECTORY / "dev.yaml", environments)
    said = [line for line in run("check").stdout.splitlines() if ": account " in line]
    assert [line.partition(":")[0] for line in said] == ["dev"]


def test_a_file_of_another_folder_is_no_environment(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("project: a\n")
    result = run("check", "--env", str(tmp_path / "small.yaml"))
    assert result.exit_code == 2
    assert "there is no such file" in result.stderr


def test_a_yml_file_is_named(environments: Path) -> None:
    (environments / "trial.yml").write_text((DIRECTORY / "small.yaml").read_text())
    result = run("check", "--env", "trial")
    assert result.exit_code == 2
    assert "only .yaml files are read" in result.stderr
    assert "Fix: rename trial.yml to trial.yaml." in result.stderr
    result = run("check")
    assert result.exit_code == 2
    assert "trial.yml: file 'trial.yml' is invalid: only .yaml files are read. " in result.stderr


def test_a_misspelt_environment_gets_a_suggestion() -> None:
    assert "Fix: did you mean 'small'?" in run("check", "--env", "smal").stderr


@pytest.mark.parametrize("width", [20, 80, 200])
def test_nothing_is_cut_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Rich assumes 80 columns for a pipe, and the window's width for a terminal."""
    monkeypatch.setattr(cli.console, "_width", width)
    for terminal in (False, True):
        monkeypatch.setattr(cli.console, "_force_terminal", terminal)
        lines = run("check", "--env", "dev").stdout
        assert "…" not in lines.replace("ml.…", "")
        assert "worker-group-1" in lines
    monkeypatch.setattr(cli.console, "_force_terminal", False)
    [accepted] = [line for line in run("check", "--env", "dev").stdout.splitlines() if "[V56]" in line]
    assert accepted.startswith("accepted: tests/environments/dev.yaml:56 ray.clusters.0 (rayml).head.instance_group: ")


def test_explain_says_what_why_source_and_example() -> None:
    for id in ("V55", "v55"):
        lines = run("explain", id).stdout.splitlines()
        assert lines[0] == "V55 (error): Require room for each head beside workers that use whole nodes."
        assert [line.partition(":")[0] for line in lines[1:]] == ["Why", "Source", "Breaks it"]
    assert run("explain", "V56").stdout.splitlines()[-1] == "To accept it: accepted_warnings: {V56: REASON}"


def test_explain_lists_all_rules_and_suggests_one() -> None:
    lines = run("explain").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(ALL_RULES)
    result = run("explain", "V555")
    assert result.exit_code == 2
    assert "no rule has this id" in result.stderr
    assert "Fix: did you mean 'V55'?" in result.stderr


def test_every_rule_is_on_the_page_of_rules() -> None:
    text = schema.RULES.read_text()
    for rule in ALL_RULES.values():
        assert f"## {rule.id}\n\n{rule.severity.value.capitalize()}. {rule.explanation.what}\n" in text
