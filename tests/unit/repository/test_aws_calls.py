"""Calls of the AWS CLI on all pages: operations and options exist in the models of the locked botocore."""

import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Final

import botocore.session
import jmespath
import pytest
from botocore import xform_name
from botocore.model import ServiceModel

from tests.unit.repository.pages import PAGES, commands

OF_EVERY_CALL: Final = {
    *("--region", "--profile", "--endpoint-url", "--output", "--query", "--debug", "--color"),
    *("--no-paginate", "--max-items", "--page-size", "--starting-token", "--no-cli-pager", "--cli-input-json"),
}
"""AWS CLI user guide, "Command line options", with those of pagination."""

OWN: Final[Mapping[str, set[str]]] = {
    "eks update-kubeconfig": {"--name", "--kubeconfig", "--role-arn", "--alias", "--user-alias", "--dry-run"},
    "eks get-token": {"--cluster-name", "--cluster-id", "--role-arn"},
    "s3 cp": {"--recursive", "--exclude", "--include", "--quiet", "--dryrun"},
    "s3 ls": {"--recursive", "--human-readable", "--summarize"},
    "s3 sync": {"--exclude", "--include", "--delete", "--quiet", "--dryrun"},
}
"""Commands that only the AWS CLI has, with the options of its reference that pages may use."""


@cache
def service(name: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model({"s3api": "s3"}.get(name, name))


def allowed(name: str, operation: str) -> set[str]:
    """Return the options of a call. Raises KeyError if there is no such operation."""
    if f"{name} {operation}" in OWN:
        return OWN[f"{name} {operation}"]
    operations = {xform_name(each, "-"): each for each in service(name).operation_names}
    shape = service(name).operation_model(operations[operation]).input_shape
    return {f"--{xform_name(member, '-')}" for member in (shape.members if shape else ())}


def wrong(call: str) -> list[str]:
    """Return what is wrong with a call of the AWS CLI."""
    name, operation, *words = [word for word in shlex.split(call)[1:] if word != "…"]
    try:
        known = allowed(name, operation) | OF_EVERY_CALL
    except KeyError:
        return [f"{name} has no {operation}"]
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    lacking = [option for option in given if option not in known and option.replace("--no-", "--") not in known]
    if "--query" in words:
        jmespath.compile(words[words.index("--query") + 1])
    return lacking


@pytest.mark.parametrize("call", commands("aws", *PAGES))
def test_every_documented_call_of_aws_is_valid(call: str) -> None:
    assert wrong(call) == []


@pytest.mark.parametrize(
    "call",
    [
        "aws sagemaker list-cluster-event --cluster-name a",
        "aws sagemaker list-cluster-events --cluster a",
        "aws eks update-kubeconfig --cluster-name a",
        "aws ec2 describe-subnets --no-such",
    ],
)
def test_a_call_that_aws_refuses_is_seen(call: str) -> None:
    assert wrong(call)


def test_pages_call_aws_in_full() -> None:
    """A call that begins with a variable or sudo escapes the check."""
    hidden = r"^\s*(?:\w+=\S+ |sudo |\$\()+aws "
    assert [str(page) for page in PAGES if re.search(hidden, page.read_text(), re.MULTILINE)] == []
