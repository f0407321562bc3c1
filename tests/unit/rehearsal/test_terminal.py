"""The person at a terminal of the tests answers each question, wherever it is shown."""

import os
from pathlib import Path

from tests.rehearsal.run.terminal import at_a_terminal


def test_a_question_is_answered_also_when_a_pipe_shows_older_text_after_it(tmp_path: Path) -> None:
    line = r'printf "Continue? [y/N]: worker-group-1: 2 nodes\n"; read -r answer; echo "said $answer"'
    done = at_a_terminal(line, cwd=tmp_path, env=os.environ)
    assert done.code == 0
    assert "said y" in done.shown


def test_each_question_is_answered_once_by_its_word(tmp_path: Path) -> None:
    line = r'for of in "zone ids (Enter: a)" "Continue? [y/N]"; do printf "$of "; read -r said; echo "<$said>"; done'
    done = at_a_terminal(line, cwd=tmp_path, env=os.environ, answers={"zone ids": "usw2-az3"})
    assert done.shown.count("<usw2-az3>") == done.shown.count("<y>") == 1
