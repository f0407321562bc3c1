"""Every published form of resource_config.json and provisioning_parameters.json, in each Python of a node."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.slurm_scripts.node import SCRIPTS
from tests.unit.slurm_scripts.published_forms import COMPUTE, FORMS, REFUSED, Form, Refused
from tests.unit.slurm_scripts.pythons import PYTHONS

FACTS: Final = ("group", "role", "controllers", "fsx_dns_name", "fsx_mountname")
# One process for all cases: each start costs more than all that it reads.
READER: Final = """
import json, sys, traceback
import read_inputs
def answer(resource_config, parameters, *addresses):
    try:
        return read_inputs.node(resource_config, parameters, addresses)
    except SystemExit as ended:
        return str(ended.code)
    except Exception:
        return traceback.format_exc()
print(json.dumps([answer(*words) for words in json.load(sys.stdin)]))
"""


def written(where: Path, resource_config: Any, parameters: Any) -> list[str]:
    """Write both files; return their paths. A text is written as it is."""
    where.mkdir()
    paths = [where / "resource_config.json", where / "provisioning_parameters.json"]
    for path, content in zip(paths, (resource_config, parameters), strict=True):
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return [str(path) for path in paths]


def read(python: str, where: Path, cases: Iterable[tuple[Any, Any, list[str]]]) -> list[Any]:
    """Return what each case's node is, or the message that refuses its files."""
    words = [[*written(where / str(number), *files), *rest] for number, (*files, rest) in enumerate(cases)]
    done = subprocess.run(
        [python, "-S", "-E", "-B", "-c", READER],
        cwd=SCRIPTS,
        input=json.dumps(words),
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def expected(form: Form) -> dict[str, str]:
    way = "api" if form.parameters is None else "provisioning_parameters"
    return {"way": way, **{fact: getattr(form, fact) for fact in FACTS}}


@pytest.mark.parametrize("python", PYTHONS)
def test_forms_are_read(tmp_path: Path, python: str) -> None:
    cases = [(form.resource_config, form.parameters, [form.address, *form.more_addresses]) for form in FORMS]
    found = zip(FORMS, read(python, tmp_path, cases), strict=True)
    assert {form.name: answer for form, answer in found if answer != expected(form)} == {}


@pytest.mark.parametrize("python", PYTHONS)
def test_what_no_node_can_work_with_is_refused_in_one_line(tmp_path: Path, python: str) -> None:
    cases = [(case.resource_config, case.parameters, [COMPUTE]) for case in REFUSED]
    found = zip(REFUSED, read(python, tmp_path, cases), strict=True)
    assert {case.name: answer for case, answer in found if not _refuses(case, answer)} == {}


def _refuses(case: Refused, answer: object) -> bool:
    return (
        isinstance(answer, str)
        and answer.startswith("ERROR: ")
        and "\n" not in answer
        and all(word in answer for word in case.words)
    )
