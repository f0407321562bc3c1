"""What is loaded before the CDK CLI: it shortens the pauses between two looks at CloudFormation, and no other timer."""

import re
import subprocess
from pathlib import Path

from embedded_account.machine.isolation import search_path
from rehearsal.paths import NODE_MODULES
from rehearsal.run.cdk import PRELOAD

_TIMERS = """
const { promisify } = require('node:util');
const tooLate = setTimeout(() => console.log('a timer that is no poll was shortened'), 5001);
setTimeout((name) => console.log(name), 5000, 'poll');
setTimeout(() => { console.log('shorter timer'); clearTimeout(tooLate); }, 1000);
promisify(setTimeout)(1, 'promised timer').then(console.log);
"""


def test_a_poll_comes_before_shorter_timers_and_nothing_else_is_shortened() -> None:
    argv = ["node", "--require", str(PRELOAD), "--eval", _TIMERS]
    done = subprocess.run(argv, env={"PATH": search_path()}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["promised timer", "poll", "shorter timer"]


def test_the_locked_cli_polls_with_timers_of_this_length() -> None:
    source = (NODE_MODULES / "aws-cdk" / "lib" / "index.js").read_text()
    polls = r"async function waitFor\(valueProvider, timeout = 5e3\) \{.{,400}setTimeout\(cb, timeout\)"
    assert re.search(polls, source, re.DOTALL)


def test_compiled_code_is_kept_for_the_cli_and_not_for_the_app(tmp_path: Path) -> None:
    shown = "console.log(require('node:module').getCompileCacheDir()?.length > 0, process.env.NODE_COMPILE_CACHE)"
    argv = ["node", "--require", str(PRELOAD), "--eval", shown]
    env = {"PATH": search_path(), "NODE_COMPILE_CACHE": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "true undefined\n"
