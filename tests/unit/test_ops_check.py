"""`ops check`, and what all commands do with a wrong environment."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import config
from config import costs
from config.load import DIRECTORY
from ops.__main__ import app
from tests.waiting import PATIENCE

COMMANDS = ("check", "wait", "status", "manifests")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory of environments in the place of the committed ones."""
    # Their default argument is the directory, bound when the function was made.
    for function in (config.load, config.available, config.neighbours):
        monkeypatch.setattr(function, "__defaults__", (tmp_path,))
    return tmp_path


def test_check_shows_every_environment_with_its_cost() -> None:
    result = run("check")
    assert result.exit_code == 0, result.output
    for name in config.available():
        assert f"{name}: account " in result.stdout
        total = sum(line.usd_per_hour or 0 for line in costs.estimate(config.load(name)))
        assert f"{total:,.2f}" in result.stdout


def test_check_shows_what_dev_will_be() -> None:
    lines = [" ".join(line.split()) for line in run("check", "--env", "dev").stdout.splitlines()]
    assert "worker-group-1 ml.p5.48xlarge usw2-az2 4 384 32 128 324" in lines
    assert "nodes usw2-az2 10.192.64.0/18 401 16,379" in lines
    assert "FSx for Lustre new, 1,200 GiB, 292 MB/s; claim fsx-claim at /fsx" in lines
    assert "rayml gpu-group 4 90 1,807 8 32" in lines
    assert f"On-demand prices of us-west-2 as of {costs.prices()['date']}" in " ".join(lines)


def test_numbers_stand_below_each_other() -> None:
    lines = run("check", "--env", "dev").stdout.splitlines()
    rows = [line for line in lines if line.startswith(("head-group: ", "worker-group-1: ", "together"))]
    assert len({len(row.rstrip()) for row in rows}) == 1


def test_an_unknown_price_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = costs.prices()
    monkeypatch.setattr(costs, "prices", lambda: prices | {"instances": {}})
    assert "no price" in run("check", "--env", "small").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_an_environment_that_does_not_exist_names_those_that_do(command: str) -> None:
    result = run(command, "--env", "staging")
    assert result.exit_code == 2
    known = ", ".join(config.available())
    assert result.stderr.endswith(f"environments/staging.yaml: no such environment; there are: {known}\n")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_yaml_is_named_with_its_line(command: str, environments: Path) -> None:
    (environments / "broken.yaml").write_text("project: a\nregion: [a\n")
    result = run(command, "--env", "broken")
    assert result.exit_code == 2
    assert "broken.yaml: line 3: " in result.stderr
    assert "Traceback" not in result.output


def test_all_findings_of_an_environment_come_at_once(environments: Path) -> None:
    (environments / "empty.yaml").write_text("project: rayhp\nzone: [bold]\n")
    result = run("check", "--env", "empty")
    assert result.exit_code == 2
    for key in ("account: is missing", "region: is missing", "zone: is not a key here"):
        assert f"empty.yaml: {key}" in result.stderr


def test_a_message_is_printed_as_it_is_brackets_included(environments: Path) -> None:
    (environments / "odd.yaml").write_text('region: "[bold]west[/]"\n')
    assert "got '[bold]west[/]'" in run("check", "--env", "odd").stderr


def test_help_names_every_command_and_the_exit_codes() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in (*COMMANDS, "charts", "review"):
        assert f" {command} " in result.stdout
    assert "Exit codes: 0 done" in " ".join(result.stdout.replace("│", " ").split())


@pytest.mark.parametrize(
    "arguments",
    [("check", "--enviroment", "dev"), ("deploy",), ("wait", "--timeout", "soon"), ("wait", "--timeout=-1")],
)
def test_a_wrong_command_line_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_check_does_not_load_the_aws_sdk() -> None:
    """It is what one runs after each edit."""
    code = "import sys, ops.__main__; print({'boto3', 'kubernetes', 'jsii'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert result.stdout == "set()\n"


def test_what_exists_costs_nothing_and_is_named() -> None:
    output = run("check", "--env", "existing-eks").stdout
    assert "vpc-0e5c1a7f93d24b680 (10.216.0.0/16), which exists" in output
    assert "EKS control plane" not in output
    assert "NAT gateways" not in output


def test_an_accepted_warning_stands_with_its_reason() -> None:
    lines = " ".join(run("check", "--env", "dev").stdout.split())
    for rule, reason in config.load("dev").accepted_warnings.items():
        assert f"[{rule}]; {reason}" in lines


def test_a_name_that_two_environments_share_is_an_error_of_the_check(environments: Path) -> None:
    text = (DIRECTORY / "small.yaml").read_text()
    for name in ("one", "two"):
        (environments / f"{name}.yaml").write_text(text)
    result = run("check", "--env", "one")
    assert result.exit_code == 2
    message = "error: hyperpod.cluster_name: 'ml-cluster-small' is what environment 'two' has too"
    assert message in " ".join(result.stdout.split())
