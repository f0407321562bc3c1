"""Refuse requests that break CloudFormation's limits, and options that the embedded account does not carry out.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.templates.template import Template

_CARRIED_OUT: Final = {
    "Capabilities", "ChangeSetName", "ChangeSetType", "ClientRequestToken", "ClientToken", "Description",
    "DisableRollback", "EnableTerminationProtection", "ImportExistingResources", "IncludeNestedStacks", "OnFailure",
    "Parameters", "ResourceTypes", "ResourcesToImport", "RetainExceptOnCreate", "RoleARN", "StackName", "Tags",
    "TemplateBody", "TemplateURL", "UsePreviousTemplate",
}  # fmt: skip
_NAME: Final = "[a-zA-Z][-a-zA-Z0-9]*"
_INLINE_BYTES: Final = 51_200
_VALUE_BYTES: Final = 4096
_TAGS: Final = 50


def check_name(name: str) -> None:
    """Refuse an invalid name of a new stack."""
    if not re.fullmatch(_NAME, name):
        raise _broken("stackName", f"satisfy regular expression pattern: {_NAME}", name)
    if len(name) > 128:
        raise _broken("stackName", "have length less than or equal to 128", name)


def check_request(request: Mapping[str, Any]) -> None:
    """Refuse options that are not carried out, and values that are too long, too many or reserved."""
    if ignored := sorted(name for name, value in request.items() if value and not _is_carried_out(name, value)):
        raise invalid(f"The embedded account does not carry out {', '.join(ignored)}. Fix: deploy without it")
    for problem in _problems(request):
        raise problem


def _is_carried_out(name: str, value: Any) -> bool:
    # The CDK CLI always states its mode; only EXPRESS ends a deployment before its resources are stable.
    return name in _CARRIED_OUT or (name == "DeploymentConfig" and value == {"Mode": "STANDARD"})


def check_types(request: Mapping[str, Any], template: Template) -> None:
    """Refuse resource types that the request's ResourceTypes leave out."""
    patterns = request.get("ResourceTypes") or ["*"]
    for definition in template["Resources"].values():
        if not any(fnmatchcase(definition["Type"], pattern) for pattern in patterns):
            raise invalid(
                f"Resource type {definition['Type']} is not allowed by parameter ResourceTypes [{', '.join(patterns)}]"
            )


def _problems(request: Mapping[str, Any]) -> Iterator[Exception]:
    body = request.get("TemplateBody") or ""
    if len(body.encode()) > _INLINE_BYTES:
        yield _broken("templateBody", f"have length less than or equal to {_INLINE_BYTES}", body)
    for number, item in enumerate(request.get("Parameters") or [], start=1):
        value = str(item.get("ParameterValue", ""))
        if len(value.encode()) > _VALUE_BYTES:
            where = f"parameters.{number}.member.parameterValue"
            yield _broken(where, f"have length less than or equal to {_VALUE_BYTES}", value)
    tags = request.get("Tags") or []
    if len(tags) > _TAGS:
        yield _broken("tags", f"have length less than or equal to {_TAGS}", f"{len(tags)} tags")
    if reserved := [tag["Key"] for tag in tags if tag["Key"].lower().startswith("aws:")]:
        yield invalid(f"Tag {reserved[0]}: aws: prefixed tag key names are not allowed for external use")


def _broken(where: str, rule: str, value: str) -> Exception:
    shown = value if len(value) <= 200 else f"{value[:200]}..."
    return invalid(
        f"1 validation error detected: Value '{shown}' at '{where}' failed to satisfy constraint: Member must {rule}"
    )
