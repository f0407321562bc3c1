"""Make the findings that a person can get: of each rule, and of each key with a value of a wrong kind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from config.findings import Finding
from config.load import validated
from config.model.environment import model_of
from config.reading.strict_yaml import read
from config.reading.type_errors import first_hand, kind_finding
from tests.unit.config.test_schema_findings import PLACES
from tests.unit.config.test_schema_findings import changed as with_value
from tests.unit.support.findings import FORM
from tests.unit.support.rule_cases import CASES, changed

_ENVIRONMENTS: Final = Path(__file__).parents[1] / "environments"
_FILE: Final = Path("environments/broken.yaml")
_WRONG: Final[tuple[Any, ...]] = ({"a": [1]}, ["b"], "c", 1, 1.5, True, None, -1)


def malformed_findings() -> list[str]:
    """Return the findings of rules and of types whose text does not have the form."""
    found = (*of_rules(), *of_types())
    form = "Allowed: FILE:LINE KEY: VALUE is invalid: REASON. Allowed: … Fix: … Fix: complete the finding"
    return [f"{each} is invalid: it lacks a part. {form}" for each in found if not FORM.fullmatch(str(each))]


def of_rules() -> Iterator[Finding]:
    """Yield what each rule says of the documents that break it. Raises LookupError for a rule that says nothing."""
    dev = read(_ENVIRONMENTS / "dev.yaml").values | {"name": "dev"}
    del dev["accepted_warnings"]
    for id, cases in CASES.items():
        for case in cases:
            broken = changed(changed(dev, case.keeps), case.breaks)
            found = [each for each in validated(broken, broken["name"])[1] if each.rule == id]
            if not found:
                raise LookupError(f"rule {id} finds nothing in its own case")
            yield from (each._replace(file=_FILE, line=1) for each in found)


def of_types() -> Iterator[Finding]:
    """Yield what the reader says of each key of the models without a value, or with one of a wrong kind."""
    for name, place in PLACES:
        for document in (with_value(name, place), *(with_value(name, place, value) for value in _WRONG)):
            try:
                model_of(document).model_validate_json(json.dumps(document | {"name": name}))
            except ValidationError as error:
                for refused in first_hand(error.errors(include_url=False)):
                    yield kind_finding(refused, document)._replace(file=_FILE, line=1)
