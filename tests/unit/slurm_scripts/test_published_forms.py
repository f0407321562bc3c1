"""Every published form of resource_config.json and provisioning_parameters.json, in each Python of a node."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.slurm_scripts.node import SCRIPTS
from tests.unit.slurm_scripts.published_forms import COMPUTE, FORMS, REFUSED, Form, Refused
from tests.unit.slurm_scripts.pythons import VERSIONS, python
from tests.unit.slurm_scripts.unfriendly_forms import CASES

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
    """Write both files; return their paths. Texts and bytes are written as they are."""
    where.mkdir()
    paths = [where / "resource_config.json", where / "provisioning_parameters.json"]
    for path, content in zip(paths, (resource_config, parameters), strict=True):
        if content is not None:
            text = content if isinstance(content, str | bytes) else json.dumps(content)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(path) for path in paths]


def read(version: str, where: Path, cases: Iterable[tuple[Any, Any, list[str]]]) -> list[Any]:
    """Return what each case's node is, or the message that refuses its files."""
    words = [[*written(where / str(number), *files), *rest] for number, (*files, rest) in enumerate(cases)]
    done = subprocess.run(
        [python(version), "-S", "-E", "-B", "-c", READER],
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


@pytest.mark.parametrize("version", VERSIONS)
def test_forms_are_read(tmp_path: Path, version: str) -> None:
    cases = [(form.resource_config, form.parameters, [form.address, *form.more_addresses]) for form in FORMS]
    found = zip(FORMS, read(version, tmp_path, cases), strict=True)
    assert {form.name: answer for form, answer in found if answer != expected(form)} == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_no_node_can_work_with_is_refused_in_one_line(tmp_path: Path, version: str) -> None:
    cases = [(case.resource_config, case.parameters, [COMPUTE]) for case in REFUSED]
    found = zip(REFUSED, read(version, tmp_path, cases), strict=True)
    assert {case.name: answer for case, answer in found if not _refuses(case, answer)} == {}


def _refuses(case: Refused, answer: object) -> bool:
    return (
        isinstance(answer, str)
        and answer.startswith("ERROR: ")
        and "\n" not in answer
        and all(word in answer for word in case.words)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_unfriendly_forms_are_read_or_refused_in_one_line(tmp_path: Path, version: str) -> None:
    asked = [(name, addresses) for name, case in CASES.items() for addresses in (case["own"], *_others(case))]
    files = [(CASES[name]["r"], CASES[name]["p"], addresses) for name, addresses in asked]
    answers: dict[str, dict[str, Any]] = {name: {} for name in CASES}
    for (name, addresses), answer in zip(asked, read(version, tmp_path, files), strict=True):
        answers[name][addresses[0]] = answer
    wrong = {
        name: answers[name]
        for name, case in CASES.items()
        if not any(_holds(reading, answers[name], case["own"][0]) for reading in case["expect"])
    }
    assert wrong == {}


def _members(reading: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return role and group, if known, of each node that a reading names beside the controllers."""
    logins: dict[str, tuple[str, str | None]] = dict.fromkeys(reading.get("logins", []), ("login", None))
    workers = reading.get("workers", {}).items()
    return logins | {address: ("compute", group) for group, known in workers for address in known if address}


def _others(case: dict[str, Any]) -> list[list[str]]:
    named = {address for reading in case["expect"] for address in _members(reading)}
    return [[address] for address in sorted(named - {case["own"][0]})]


def _holds(reading: dict[str, Any], answers: dict[str, Any], own: str) -> bool:
    answer = answers[own]
    if "error" in reading:
        words = (reading["error"]["file"], *reading["error"]["words"])
        return isinstance(answer, str) and "\n" not in answer and all(word in answer for word in words)
    if isinstance(answer, str):
        return False
    expected = {
        "role": reading.get("self", answer["role"]),
        "controllers": ",".join(reading["controllers"]) if "controllers" in reading else answer["controllers"],
        "fsx_dns_name": (reading["fsx"] or ("", ""))[0] if "fsx" in reading else answer["fsx_dns_name"],
        "fsx_mountname": (reading["fsx"] or ("", ""))[1] if "fsx" in reading else answer["fsx_mountname"],
    }
    return expected.items() <= answer.items() and all(
        answers[address]["role"] == role and group in (None, answers[address]["group"])
        for address, (role, group) in _members(reading).items()
        if address != own
    )
