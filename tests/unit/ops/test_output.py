"""`-o json` and `-o yaml`: one document, of the shape that the help shows, never cut, wrapped or coloured."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

import config
from config.load import DIRECTORY
from config.rules import ALL_RULES
from ops.commands.whole import app
from ops.output import Format
from tests.support.generated_environments import read_from
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis


def run(*arguments: str, code: int = 0, force_color: str = "") -> str:
    result = CliRunner(env={"COLUMNS": "40", "FORCE_COLOR": force_color}).invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def test_check_has_the_documented_data() -> None:
    shown = json.loads(run("check", "-o", "json"))
    assert [each["environment"] for each in shown] == config.available()
    assert all(each["valid"] for each in shown)
    assert any(each["findings"] for each in shown)
    assert_same_shape(shown, documented("check"))


def test_check_reports_an_invalid_environment_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    [shown] = json.loads(run("check", "--env", "staging", "-o", "json", code=2))
    assert (shown["valid"], shown["plan"]) == (False, None)
    assert [finding["kind"] for finding in shown["findings"]] == ["error"]


def test_explain_has_the_documented_data() -> None:
    assert_same_shape(json.loads(run("explain", "V55", "-o", "json")), documented("explain"))
    listed = json.loads(run("explain", "-o", "json"))
    assert [each["rule"] for each in listed] == list(ALL_RULES)
    assert_same_shape(listed, [documented("explain")])


def test_images_have_the_documented_data() -> None:
    for name in ("closed", "small"):
        listed = json.loads(run("images", "--env", name, "-o", "json"))
        assert_same_shape(listed, documented("images"))
        assert any(image["copy"] for image in listed) is (name == "closed")


@pytest.mark.parametrize("require", ["none", "all"])
def test_wait_has_the_documented_data(apis: Apis, require: str) -> None:
    shown = json.loads(run("wait", "--env", "dev", "--require", require, "-o", "json"))
    assert shown["ready"] is True
    assert_same_shape(shown, documented("wait"))


def test_yaml_is_the_same_data_as_json() -> None:
    for words in (("check",), ("images", "--env", "closed")):
        assert yaml.safe_load(run(*words, "-o", "yaml")) == json.loads(run(*words, "-o", "json"))


@pytest.mark.parametrize("words", [("explain",), ("check", "--env", "dev"), ("images", "--env", "closed")])
@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_piped_output_is_neither_cut_nor_wrapped(words: tuple[str, ...], output: str) -> None:
    """The terminal would have 40 columns."""
    shown = run(*words, "-o", output, force_color="" if output == "table" else "1")
    assert max(map(len, shown.splitlines())) > 80
    assert not re.search(r"\w…$", shown, re.MULTILINE)
    assert "\x1b" not in shown


def test_every_command_with_data_takes_all_formats_and_documents_the_shape() -> None:
    def below(command: Any, *words: str) -> Any:
        if hasattr(command, "commands"):
            for name, each in command.commands.items():
                yield from below(each, *words, name)
        else:
            yield words, command

    found = []
    for words, command in below(typer.main.get_command(app)):
        for parameter in command.params:
            if "--output" in parameter.opts:
                assert parameter.default is Format.TABLE, words
                assert documented(*words), words
                found.append(words)
    assert {("check",), ("explain",), ("images",), ("wait",), ("job", "list"), ("kuberay", "crds")} <= set(found)


def test_a_document_is_complete_though_a_file_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("project: [\n")
    (tmp_path / "b.yaml").write_text((DIRECTORY / "small.yaml").read_text())
    read_from(tmp_path, monkeypatch)
    shown = json.loads(run("check", "-o", "json", code=2))
    assert [(each["environment"], each["valid"]) for each in shown] == [("a", False), ("b", True)]
