"""Read what AWS publishes of its answers, and compare it with what the account answers."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import jmespath
import yaml
from botocore.exceptions import ClientError

from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from embedded_account.testing.waiting import wait_until

FOLDER: Final = Path(__file__).parent
RESULTS: Final = FOLDER / "results.md"
FILES: Final = ("cloudformation", "registry", "ec2", "storage", "identity", "services")
SAME: Final = "same"

# How the account says that it does not model what AWS does.
_ABSENT: Final = re.compile(
    r"embedded account|not simulate|simulates |does not implement|not implemented|supported here|not been implemented"
)
_ROW: Final = re.compile(r"\| `(?P<id>[^`]+)` \| (?P<state>[a-z ]+) \|")
# The keys of a case that are its last step.
_REQUEST: Final = ("call", "with", "template", "resource", "stack", "options", "delete")
_CAPABILITIES: Final = ["CAPABILITY_NAMED_IAM"]

HEAD: Final = """# AWS's published answers, and the embedded account's

`make test-values` writes this page; the files beside it hold the requests, AWS's answers and their sources.

- same: the account answers like AWS
- laxer: AWS refuses, the account accepts
- stricter: AWS accepts, the account refuses
- other code, other words: both refuse, with another error
- absent: the account says that it does not model this

"""


@dataclass(frozen=True)
class Case:
    """A request, and AWS's answer to it."""

    id: str
    rule: str
    source: str
    steps: tuple[dict[str, Any], ...]
    aws: dict[str, Any] | None
    """The error's code, HTTP status and words, as far as they are published; None if AWS accepts."""

    @property
    def expected(self) -> str:
        """Return AWS's answer in a few words."""
        return "accepted" if self.aws is None else str(self.aws.get("code") or "refused")


@dataclass(frozen=True)
class Answer:
    """What the account answers: whether it refuses, with the refusal's code, HTTP status and text."""

    refuses: bool = False
    code: str = ""
    status: int = 0
    text: str = ""


@cache
def cases() -> dict[str, Case]:
    """Return all cases by their ids."""
    found: dict[str, Case] = {}
    for name in FILES:
        file = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        for each in file["cases"]:
            case = _registry_case(file, each) if name == "registry" else _case(file, each)
            assert case.id not in found, case.id
            found[case.id] = case
    return found


def _case(file: dict[str, Any], each: dict[str, Any]) -> Case:
    last = {key: each[key] for key in _REQUEST if key in each}
    steps = (*file.get("prepared", {}).get(each.get("prepare"), ()), *each.get("before", ()), last)
    aws = None if each["aws"] == "accepted" else each["aws"]
    return Case(each["id"], each["rule"], file["sources"][each["source"]], tuple(map(_expanded, steps)), aws)


def _registry_case(file: dict[str, Any], each: dict[str, Any]) -> Case:
    values = yaml.safe_load((FOLDER / "given.yaml").read_text())["values"]
    properties: dict[str, Any] = {}
    for key, value in each["with"].items():
        if key.startswith("$"):
            properties |= values[key[1:]] | value
        else:
            properties[key] = values["trust"] if value == "$trust" else value
    rule = f"{each['type']}: {each['keyword']} of {each['path']}"
    step = _expanded({"resource": {"Type": each["type"], "Properties": properties}})
    return Case(each["id"], rule, file["source"], (step,), {"words": each["path"].rpartition("/")[2]})


def _expanded(value: Any, number: int | None = None) -> Any:
    """Return a value of a file with its long texts, lists and mappings written out."""
    if isinstance(value, str) and number is not None:
        return value.replace("%d", str(number))
    if isinstance(value, list):
        return [_expanded(each, number) for each in value]
    if isinstance(value, dict):
        [first, *_] = value or [""]
        if first in _WRITTEN:
            return _WRITTEN[first](value[first], number)
        return {key: _expanded(each, number) for key, each in value.items()}
    return value


_WRITTEN: Final[dict[str, Callable[[Any, int | None], Any]]] = {
    "$text": lambda given, _: given[0] * given[1],
    "$list": lambda given, _: [_expanded(given[1], index) for index in range(given[0])],
    "$keys": lambda given, _: {f"{given[0]}{index}": _expanded(given[2], index) for index in range(given[1])},
    "$json": lambda given, number: json.dumps(_expanded(given, number)),
}


class Asker:
    """Takes the steps of cases in the account."""

    def __init__(self, clients: Clients, stacks: StackDeployer) -> None:
        self._clients, self._stacks = clients, stacks
        self._answers: dict[str, Any] = {}

    def ask(self, case: Case) -> Answer:
        """Take a case's steps; return the answer to the last, or the refusal of an earlier one."""
        answer = Answer()
        for step in case.steps:
            for number in range(step.get("times", 1)):
                answer = self._take(_expanded(step, number) if "times" in step else step)
                if answer.refuses and _ABSENT.search(answer.text):
                    return answer  # what comes after a step that is not modelled shows nothing
                if answer.refuses and step is not case.steps[-1] and not step.get("may_fail"):
                    raise AssertionError(f"{case.id}: {step} was refused: {answer}")
        return answer

    def _take(self, step: dict[str, Any]) -> Answer:
        step = self._filled(step)
        try:
            if "call" in step:
                self._call(step)
                return Answer()
            return self._deploy(step)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            details = error.response["Error"]
            return Answer(True, details["Code"], status, str(details.get("Message", "")))

    def _call(self, step: dict[str, Any]) -> None:
        service, _, operation = step["call"].partition(".")
        answer = getattr(self._clients(service), operation)(**step["with"])
        if "as" in step:
            self._answers[step["as"]] = answer
        if until := step.get("until"):
            other, _, describe = until["call"].partition(".")
            ask = getattr(self._clients(other), describe)
            wait_until(lambda: jmespath.search(until["path"], ask()) == until["is"], step["call"])

    def _deploy(self, step: dict[str, Any]) -> Answer:
        if "delete" in step:
            return self._end(step["delete"], self._stacks.delete(step["delete"]), "DELETE_COMPLETE")
        template = step.get("template") or {"Resources": {"R": step["resource"]}}
        template = {**template, "Resources": _with_given(template["Resources"])}
        name, options = step.get("stack", "s"), step.get("options", {})
        if not options or self._stacks.exists(name):
            return self._end(name, self._stacks.deploy(name, template, Capabilities=_CAPABILITIES))
        body = json.dumps(template)
        self._stacks.client.create_stack(StackName=name, TemplateBody=body, Capabilities=_CAPABILITIES, **options)
        return self._end(name, self._stacks.wait(name))

    def _end(self, name: str, status: str, *good: str) -> Answer:
        if status in (good or ("CREATE_COMPLETE", "UPDATE_COMPLETE")):
            return Answer()
        events = self._stacks.client.describe_stack_events(StackName=name)["StackEvents"]
        reasons = [event.get("ResourceStatusReason", "") for event in events]
        return Answer(True, status, 0, " ".join(reasons))

    def _filled(self, value: Any) -> Any:
        """Return `value` with each text `$name.path` replaced by what an earlier call answered."""
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, str) and value.startswith("$") and (name := value[1:].split(".")[0]) in self._answers:
            return jmespath.search(value[2 + len(name) :], self._answers[name])
        return value


def _with_given(resources: dict[str, Any]) -> dict[str, Any]:
    """Return resources with those of given.yaml to which they refer."""
    given = yaml.safe_load((FOLDER / "given.yaml").read_text())["resources"]
    found = dict(resources)
    while missing := {name for name in given if name not in found and _refers(found, name)}:
        found |= {name: given[name] for name in missing}
    return found


def _refers(value: Any, name: str) -> bool:
    text = json.dumps(value)
    return f'{{"Ref": "{name}"}}' in text or f'{{"Fn::GetAtt": ["{name}",' in text


def state(case: Case, answer: Answer) -> str:
    """Return how the account's answer compares with AWS's."""
    if answer.refuses and _ABSENT.search(answer.text):
        return "absent"
    if case.aws is None:
        return "stricter" if answer.refuses else SAME
    if not answer.refuses:
        return "laxer"
    judged_by_code = "call" in case.steps[-1]
    if judged_by_code and (case.aws.get("code", answer.code), case.aws.get("status", answer.status)) != (
        answer.code,
        answer.status,
    ):
        return "other code"
    return SAME if str(case.aws.get("words", "")).lower() in answer.text.lower() else "other words"


def recorded() -> dict[str, str]:
    """Return the recorded state of each case that is not the same."""
    return {row["id"]: row["state"] for row in _ROW.finditer(RESULTS.read_text())} if RESULTS.exists() else {}
