"""Test the file that Node loads before the CDK CLI: it shortens the CLI's polls of CloudFormation, no other timer."""

import re
import subprocess
from pathlib import Path

import pytest

from embedded_account.machine.isolation import search_path
from embedded_account.paths import CDK_PRELOAD
from embedded_account.testing.clients import NODE_MODULES

_TIMERS = """
const { promisify } = require('node:util');
const tooLate = setTimeout(() => console.log('a timer that is no poll was shortened'), 5001);
setTimeout((name) => console.log(name), 5000, 'poll');
setTimeout(() => { console.log('shorter timer'); clearTimeout(tooLate); }, 1000);
promisify(setTimeout)(1, 'promised timer').then(console.log);
"""


def run(program: Path, source: str, **env: str) -> list[str]:
    """Run a program into which Node preloads the file; return the lines that it prints."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(source)
    argv = ["node", "--require", str(CDK_PRELOAD), str(program)]
    done = subprocess.run(argv, env={"PATH": search_path(), **env}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    """Return the path to which npm installs the CLI."""
    return tmp_path / "node_modules" / "aws-cdk" / "bin" / "cdk"


def test_a_poll_comes_before_shorter_timers_and_nothing_else_is_shortened(cli: Path) -> None:
    assert run(cli, _TIMERS) == ["promised timer", "poll", "shorter timer"]


def test_a_link_to_the_cli_is_the_cli(cli: Path) -> None:
    link = cli.parents[2] / ".bin" / "cdk"
    cli.parent.mkdir(parents=True)
    cli.touch()
    link.parent.mkdir()
    link.symlink_to(cli)
    assert run(link, _TIMERS) == ["promised timer", "poll", "shorter timer"]


def test_timers_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path / "app", _TIMERS) == ["promised timer", "shorter timer", "poll"]


def test_the_locked_cli_polls_with_timers_of_this_length() -> None:
    source = (NODE_MODULES / "aws-cdk" / "lib" / "index.js").read_text()
    polls = r"async function waitFor\(valueProvider, timeout = 5e3\) \{.{,400}setTimeout\(cb, timeout\)"
    assert re.search(polls, source, re.DOTALL)


def test_compiled_code_is_kept_for_the_cli_and_not_for_the_app(cli: Path, tmp_path: Path) -> None:
    shown = "console.log(require('node:module').getCompileCacheDir()?.length > 0, process.env.NODE_COMPILE_CACHE)"
    assert run(cli, shown, NODE_COMPILE_CACHE=str(tmp_path / "compiled")) == ["true undefined"]
