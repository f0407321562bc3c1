"""Every error message says what is wrong, what is allowed and how to fix it: `make check` fails on others."""

from pathlib import Path

import pytest

from config.findings import Finding
from tests.messages import exemptions, findings
from tests.messages.__main__ import project, sources
from tests.messages.form import malformed, malformed_parts, unknown_classes
from tests.messages.texts import Message, Project, Source

FILE = Path("ops/commands/example.py")
ERRORS = """
class WrongError(Exception): ...
class NamedError(Exception):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
"""


def complaints(code: str) -> list[str]:
    """Return what the check says of a module with these lines."""
    return malformed(Project([Source(FILE, ERRORS + code)], frozenset()).messages(), {})


@pytest.mark.parametrize(
    "text",
    [
        '"there is no such group"',
        'f"there is no group {name}: deploy first"',
        '"there is no group " + name + "; it has others"',
        '"there is no group. Fix:"',
        '"no group. Fix: deploy" if deep else "no group"',
    ],
)
@pytest.mark.parametrize("call", ["fail({})", "sys.exit({})", "raise WrongError({})", "raise NamedError(name, {})"])
def test_a_message_without_what_is_allowed_and_without_a_fix_is_refused(call: str, text: str) -> None:
    [said] = complaints(call.format(text))
    assert said.startswith(f"{FILE}:6: ")
    assert "is invalid: a part is missing. Allowed: " in said


@pytest.mark.parametrize(
    "text",
    [
        '"there is no such group. Allowed: a, b"',
        'f"there is no group {name}. Fix: deploy"',
        '"no group. " + "Allowed: a. Fix: deploy"',
        "f'there is no group. {FIX}'",
    ],
)
@pytest.mark.parametrize("call", ["fail({})", "raise WrongError({})", "raise NamedError(name, {})"])
def test_a_message_with_one_of_them_is_accepted(call: str, text: str) -> None:
    assert complaints(f'FIX = "Fix: deploy"\n{call.format(text)}') == []


def test_a_message_is_followed_through_variables_and_functions() -> None:
    code = """
def reason(name): return f"there is no {name}"
def read(name):
    why = reason(name)
    raise WrongError(why)
"""
    [said] = complaints(code)
    assert "'there is no {}'" in said


def test_another_error_of_the_project_ends_a_message() -> None:
    code = """
try: ...
except WrongError as error: fail(f"dev: {error}")
"""
    assert complaints(code) == []
    assert complaints(code.replace("{error}", "{error}; try again")) != []
    assert complaints(code.replace("WrongError", "OSError")) != []


def test_an_exemption_that_no_message_needs_is_refused() -> None:
    message = Message(FILE, 1, "interrupted; nothing was changed")
    assert malformed([message], {(str(FILE), "interrupted"): "Ctrl-C"}) == []
    [said] = malformed([], {(str(FILE), "interrupted"): "Ctrl-C"})
    assert "no message needs it" in said
    assert unknown_classes({"WrongError"}, ["WrongError"]) == []
    assert unknown_classes({"WrongError"}, ["GoneError"])


def test_a_part_of_a_finding_that_breaks_the_whole_is_refused() -> None:
    code = 'Violation(key, "it is too low.", "1 and more. Fix: raise it", "raise it")'
    parts = Project([Source(FILE, code)], frozenset()).parts_of_findings()
    assert [said.partition(" is invalid")[0] for said in malformed_parts(parts)] == [
        f"{FILE}:1: 'it is too low.'",
        f"{FILE}:1: '1 and more. Fix: raise it'",
    ]


def test_a_finding_without_a_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Finding("region", "'x'", "it is unknown", "us-west-2", "write us-west-2", file=Path("dev.yaml"), line=1)
    monkeypatch.setattr(findings, "of_types", lambda: iter(()))
    for broken, count in ((whole, 0), (whole._replace(fix=""), 1), (whole._replace(allowed=""), 1)):
        monkeypatch.setattr(findings, "of_rules", lambda broken=broken: iter([broken]))
        assert len(findings.malformed_findings()) == count


def test_every_message_of_the_project_has_the_form() -> None:
    """And the check finds them: an empty list would have the form, too."""
    found = project(sources()).messages()
    assert len(found) > 100
    assert malformed(found, exemptions.MESSAGES) == []
    assert {"app.py", "ops", "rehearsal", "stacks"} <= {message.file.parts[0] for message in found}
    assert all(exemptions.MESSAGES.values())
    assert all(exemptions.UNSEEN_CLASSES.values())
