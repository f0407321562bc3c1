"""Every error code that the embedded account's modules name: AWS's own model of the service lists it, or a document."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import yaml
from botocore.loaders import Loader

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.permissions import middleware
from rehearsal.paths import REPOSITORY
from tests.unit.contracts.contract import read

FACTS: Final = read("errors")
PACKAGE: Final = REPOSITORY / "packages/embedded-account"
MODULES: Final = PACKAGE / "embedded_account"
CODE: Final = re.compile(r"[A-Z][A-Za-z.]+(Exception|Error|Exceeded|Denied|Violation|InUse|Exists|NotFound|Failure)")
SERVICES: Final = {
    # It repeats a deletion that EC2 refuses.
    "cloudformation": ("cloudformation", "ec2"),
    "hyperpod": ("sagemaker",),
    "request_rules/identity": ("iam", "sts"),
    "request_rules/keys": ("kms",),
    "request_rules/s3": ("s3",),
    "request_rules": ("events", "iam", "kms", "logs", "ssm", "sts"),
    "services/budgets": ("budgets",),
    "services/ec2": ("ec2",),
    "services/ecr": ("ecr",),
    "services/eks": ("eks",),
    "services/fsx": ("fsx",),
    "services/grafana": ("grafana",),
    "services/iam": ("iam", "sts"),
    "services/logs": ("logs",),
    "services/s3": ("s3",),
    "services/service_quotas": ("service-quotas",),
    "services/ssm": ("ssm",),
}
"""Whose errors a module answers, by the beginning of its path; the first that fits."""
UNMODELLED: Final = ("ec2", "s3")
"""Their models list no errors that the package answers; what documents say is in FACTS."""
NO_CODES: Final = {
    *("Exists", "IfExists", "NotFound", "OnFailure", "ClientError"),
    # No document says it; clients of EC2 name it as an exception that they saw.
    "PrefixListMaxEntriesExceeded",
}


@cache
def modelled(service: str) -> frozenset[str]:
    """Return the codes of a service's errors, and the values of its enumerations, which have codes of single items."""
    shapes = Loader().load_service_model(service, "service-2")["shapes"] if service not in UNMODELLED else {}
    errors = {
        shape.get("error", {}).get("code", name): name for name, shape in shapes.items() if shape.get("exception")
    }
    values = {value for shape in shapes.values() for value in shape.get("enum", ())}
    return frozenset({*errors, *errors.values(), *values})


@cache
def published() -> dict[str, set[str]]:
    """Return the codes of the published answers that the package compares itself with, by service."""
    found: dict[str, set[str]] = {}
    for file in (PACKAGE / "tests/account/published").glob("*.yaml"):
        for case in yaml.load(file.read_text(), yaml.CSafeLoader).get("cases", ()):
            if code := case["aws"].get("code") if isinstance(case.get("aws"), dict) else None:
                found.setdefault(str(case.get("call", "")).split(".")[0], set()).add(code)
    return found


def named(file: Path) -> Iterator[str]:
    """Yield the texts of a module that have the form of a code."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value


def test_simulator_answers_codes_that_models_or_documents_list() -> None:
    documented = {"ec2": {*FACTS["ec2"], *FACTS["ec2_seen"]}, "s3": {*FACTS["s3"]}}
    unknown = set()
    for file in MODULES.rglob("*.py"):
        path = file.relative_to(MODULES).as_posix()
        services = next((services for start, services in SERVICES.items() if path.startswith(start)), ())
        if not services:
            continue
        known = {*NO_CODES, *FACTS["common"], FACTS["access_denied"]}
        for service in services:
            known |= modelled(service) | published().get(service, set()) | documented.get(service, set())
        unknown |= {f"{path}: {code}" for code in named(file) if code not in known}
    assert unknown == set()


def test_simulator_refuses_callers_by_a_documented_code() -> None:
    codes = {middleware._CODES[service] for service in middleware._CODES}
    assert codes <= {FACTS["access_denied"], *FACTS["ec2"], *FACTS["common"]}
    assert ValidationFailedError.code == FACTS["no_events"]
