"""Whatever a file contains, it is either a valid environment or refused with a list of findings."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from config import Environment, available, load
from config.findings import InvalidEnvironmentError, Severity
from config.load import DIRECTORY
from config.reading.strict_yaml import read
from config.rules import findings
from tests.support.generated_environments import changed_environments, valid_environments

# An example takes as long as five examples of other tests. Failures are not shrunk, which would take minutes: the
# finding is clear enough.
SETTINGS = settings(
    max_examples=settings().max_examples // 5,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# What readers of YAML 1.1 and 1.2 take for different things: libraries write it without quotes, and it is refused.
WORDS = re.compile(r"(?i:y|n|yes|no|on|off|null|true|false)")
AMBIGUOUS = re.compile(rf"{WORDS.pattern}|=|<<|[-+.0-9][-+.:_0-9a-fA-FtTzZ ]*")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")


def judged(directory: Path, content: str | bytes) -> Environment | InvalidEnvironmentError:
    """Return the environment or the findings that `load` gives; any other exception is a failure."""
    content = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
    (directory / "generated.yaml").write_bytes(content)
    result = _loaded(directory)
    if isinstance(result, InvalidEnvironmentError):
        assert result.findings
        for finding in result.findings:
            assert finding.severity is Severity.ERROR
            assert all((finding.value, finding.reason, finding.allowed, finding.fix, finding.file))
    else:
        assert [finding for finding in findings(result) if finding.severity is Severity.ERROR] == []
    return result


def _loaded(directory: Path) -> Environment | InvalidEnvironmentError:
    try:
        return load("generated", directory)
    except InvalidEnvironmentError as refusal:
        return refusal


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _texts(value)


def _json(document: Any) -> str:
    """Return the document as JSON, which is YAML too, except for escaped surrogate halves."""
    return json.dumps(document, ensure_ascii=False)


@given(document=valid_environments())
@SETTINGS
def test_a_document_that_keeps_all_rules_is_an_environment(document: Any, directory: Path) -> None:
    environment = judged(directory, _json(document))
    assert isinstance(environment, Environment), environment


@given(document=changed_environments())
@SETTINGS
def test_a_changed_document_is_an_environment_or_lists_its_findings(document: Any, directory: Path) -> None:
    judged(directory, _json(document))


@pytest.mark.parametrize("name", available())
@given(data=st.data())
@settings(parent=SETTINGS, max_examples=SETTINGS.max_examples // 4)
def test_a_committed_file_without_some_of_its_text_lists_its_findings(
    data: st.DataObject, name: str, directory: Path
) -> None:
    text = (DIRECTORY / f"{name}.yaml").read_text()
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 40)))
    judged(directory, text[:begin] + data.draw(st.text(max_size=5)) + text[end:])


@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200)))
@example(content=b"\x00")
@example(content="a: " + "9" * 5000)
@example(content="? ? ? ?")
@example(content="{{a: b}: c}: d")
@example(content="project: !!binary aGVsbG8=")
@SETTINGS
def test_any_file_at_all_is_refused_with_findings(content: str | bytes, directory: Path) -> None:
    assert isinstance(judged(directory, content), InvalidEnvironmentError)


@given(document=valid_environments())
@settings(parent=SETTINGS, max_examples=SETTINGS.max_examples // 2)
def test_yaml_that_a_library_wrote_is_read_back_unchanged(document: Any, directory: Path) -> None:
    # Any name may be such a word, of a group, a cluster or workers.
    assume(not any(WORDS.fullmatch(text) for text in _texts(document)))
    for cluster in document["ray"]["clusters"]:
        assume(not any(AMBIGUOUS.fullmatch(value) for value in cluster.get("env", {}).values()))
    for link in document.get("fsx", {}).get("data_repositories", []):
        assume(not AMBIGUOUS.fullmatch(link["prefix"]))
    yaml = YAML()
    yaml.width = 10_000
    file = directory / "written.yaml"
    with file.open("w") as stream:
        yaml.dump(document, stream)
    assert read(file).values == document
