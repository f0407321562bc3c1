"""An optional part has one name in every layer: only its own files and the registrations name it (docs/parts.py)."""

import runpy
from pathlib import Path
from typing import Any, Final

import pytest

from config.model.environment import every_key

REPOSITORY: Final = Path(__file__).parents[3]
PARTS: Final[dict[str, Any]] = runpy.run_path(str(REPOSITORY / "docs" / "parts.py"))
MOST: Final = 24
"""The parts named by exceptions: a change may lower this number, not raise it."""


def test_the_page_of_the_parts_is_current() -> None:
    assert PARTS["FILE"].read_text() == PARTS["page"](), "run `python docs/parts.py`"


def test_no_other_file_of_the_product_names_a_part() -> None:
    listed = {file: set(parts.split()) for file, (parts, _) in PARTS["EXCEPTIONS"].items()}
    found = PARTS["exceptions"]()
    others = {file: parts - listed.get(file, set()) for file, parts in found.items()}
    gone = {file: parts - found.get(file, set()) for file, parts in listed.items()}
    assert {file: parts for file, parts in others.items() if parts} == {}, "move it to the part's own file"
    assert {file: parts for file, parts in gone.items() if parts} == {}, "take it out of EXCEPTIONS in docs/parts.py"


def test_the_exceptions_do_not_grow() -> None:
    assert sum(len(parts.split()) for parts, _ in PARTS["EXCEPTIONS"].values()) <= MOST


def test_every_registration_names_a_part() -> None:
    naming = {path for part in PARTS["PARTS"] for path in PARTS["named"](part)}
    assert [each for each in PARTS["REGISTRATIONS"] if not any(path.match(each) for path in naming)] == []


@pytest.mark.parametrize("part", PARTS["PARTS"], ids=lambda part: str(part.name))
def test_a_part_has_files_of_its_own_and_keys_that_exist(part: Any) -> None:
    schema = every_key().model_json_schema()
    assert any(part.owns(path) for path in PARTS["files"]() if PARTS["layer"](path) != "tests")
    for key in part.keys:
        model = schema
        for name in key.split("."):
            field = model["properties"][name]
            models = [option["$ref"].rsplit("/", 1)[1] for option in field.get("anyOf", [field]) if "$ref" in option]
            model = schema["$defs"][models[0]] if models else {"properties": {}}


def test_every_key_of_observability_is_a_part_s() -> None:
    keys = {key for part in PARTS["PARTS"] for key in part.keys}
    schema = every_key().model_json_schema()
    assert {f"observability.{name}" for name in schema["$defs"]["Observability"]["properties"]} <= keys


@pytest.mark.parametrize("code", ["x.mlflow", "managed_mlflow", "MLFLOW_PREFIX", "'mlflow'", "import Mlflow"])
def test_each_form_of_a_name_is_seen(code: str) -> None:
    [mlflow] = [part for part in PARTS["PARTS"] if part.name == "mlflow"]
    assert mlflow.is_named_in(code)
    assert not mlflow.is_named_in("AWS::SageMaker::MlflowTrackingServer")


def test_comments_and_docstrings_name_nothing(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text('"""mlflow"""\n# mlflow\ndef one():\n    """mlflow"""\n\nTWO = "other"  # mlflow\n')
    assert "mlflow" not in PARTS["code"](file)
    assert "other" in PARTS["code"](file)
