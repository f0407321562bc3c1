"""A verdict as JSON, for programs: `ops review --json` writes it, `ops gate --review` reads it."""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ops.review.checkouts.cdk import ReviewError
from ops.review.model import Verdict

_VERDICT: Final = TypeAdapter(Verdict)


def to_json(verdict: Verdict) -> str:
    """Return the verdict as a JSON document."""
    return json.dumps(_document(verdict), indent=2) + "\n"


def from_file(file: Path) -> Verdict:
    """Return the verdict in a file that `ops review --json` wrote.

    Raises ReviewError if the file cannot be read or is no verdict of this version.
    """
    again = "Allowed: a file that `ops review --json` of this version wrote. Fix: write it again"
    try:
        text = file.read_bytes()
        verdict = _VERDICT.validate_json(text)
    except OSError as error:
        raise ReviewError(f"{file} cannot be read: {error.strerror}. {again}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise ReviewError(f"{file} is no verdict: {place}: {first['msg']}. {again}") from error
    # A missing key would take its default, which may be harmless.
    if json.loads(text) != _document(verdict):
        raise ReviewError(f"{file} is no verdict: its keys are not those of a verdict. {again}")
    return verdict


def _document(verdict: Verdict) -> Any:
    document = _VERDICT.dump_python(verdict, mode="json")
    for environment in document["environments"]:
        for change in environment["changes"]:
            change["dangers"].sort()
    return document
