"""Turn an API request into a validated desired state."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from moto.s3.models import s3_backends

from embedded_account.cloudformation import validation
from embedded_account.cloudformation.api import limits
from embedded_account.cloudformation.deployment import intrinsics_of
from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.lookups import AccountLookups, Foresight
from embedded_account.cloudformation.service_role import require_assumable
from embedded_account.cloudformation.stack import Desired, Stack
from embedded_account.cloudformation.templates import parameters
from embedded_account.cloudformation.templates.dependencies import dependencies
from embedded_account.cloudformation.templates.intrinsics import Intrinsics
from embedded_account.cloudformation.templates.template import Template, parse
from embedded_account.tags import tag_map

if TYPE_CHECKING:
    from embedded_account.context import Account

Request = Mapping[str, Any]
"""The parameters of an API call, by their names in CloudFormation's API."""


def template_body(account: "Account", request: Request, stack: Stack | None = None) -> str:
    """Return the template of a request: its body, the object at its URL, or the stack's current template."""
    body, url = request.get("TemplateBody"), request.get("TemplateURL")
    if request.get("UsePreviousTemplate"):
        if body or url or stack is None:
            raise invalid("You cannot specify both usePreviousTemplate and Template Body/Template URL.")
        return stack.desired.body
    if body:
        return str(body)
    if url:
        return _from_s3(account, str(url))
    raise invalid("Either Template URL or Template Body must be specified.")


def desired_state(account: "Account", request: Request, stack: Stack, lookups: AccountLookups) -> Desired:
    """Return the desired state of `stack` in a request, checked as far as possible without changing anything.

    Raises RefusedCallError with CloudFormation's text.
    """
    limits.check_request(request)
    body = template_body(account, request, stack)
    template = parse(body)
    types = lookups.resource_types
    kinds = validation.kinds_of(template, types)
    limits.check_types(request, template)
    capabilities = tuple(request.get("Capabilities") or ())
    validation.check_capabilities(template, capabilities)
    texts = parameters.texts_of(request.get("Parameters") or [], stack.desired.parameters.given)
    tags = request.get("Tags")
    desired = Desired(
        body=body,
        template=template,
        parameters=parameters.resolve(template, texts, lookups),
        # Without Tags a stack keeps its tags.
        tags=stack.desired.tags if tags is None else tag_map(tags),
        capabilities=capabilities,
        role_arn=request.get("RoleARN") or stack.desired.role_arn,
    )
    require_assumable(account, desired.role_arn)
    intrinsics = intrinsics_of(stack, desired, Foresight(lookups, {}, set()))
    _check_rules(template, intrinsics)
    live = {name: definition for name, definition in template["Resources"].items() if intrinsics.applies(definition)}
    validation.check_references(template, live, intrinsics, kinds)
    validation.check_resources(live, intrinsics, kinds, types)
    needs = dependencies(live, intrinsics)
    _check_types_stay(stack, live)
    return replace(desired, needs=needs)


def _from_s3(account: "Account", url: str) -> str:
    """Return the template at a path-style or virtual-host-style URL."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path.lstrip("/"))
    bucket = host.split(".s3.")[0] if ".s3." in host else ""
    if not bucket:
        bucket, _, path = path.partition("/")
    try:
        key = s3_backends[account.account_id]["aws"].get_object(bucket, path)
    except Exception:  # noqa: BLE001 - the caller treats a missing bucket as a missing key
        key = None
    if key is None:
        raise invalid(f"S3 error: The specified key does not exist: {url}")
    return str(key.value.decode())


def _check_rules(template: Template, intrinsics: Intrinsics) -> None:
    """Evaluate the Rules section: assertions about parameters. CDK uses one to check the bootstrap version."""
    for name, rule in template.get("Rules", {}).items():
        condition = rule.get("RuleCondition")
        if condition is not None and not intrinsics.holds(condition):
            continue
        for assertion in rule.get("Assertions", []):
            if not intrinsics.holds(assertion["Assert"]):
                why = assertion.get("AssertDescription", "")
                raise invalid(f"Template error: Rule {name} failed: {why}")


def _check_types_stay(stack: Stack, live: Mapping[str, Any]) -> None:
    changed = [
        name for name, resource in stack.resources.items() if name in live and live[name]["Type"] != resource.type
    ]
    if changed:
        raise invalid(
            "Update of resource type is not permitted. The new template modifies resource type of the following "
            f"resources: [{', '.join(changed)}]"
        )


def refuse_imports(request: Request) -> None:
    """Refuse to import resources into a stack.

    ImportExistingResources, which `cdk bootstrap` always sets, is accepted, but nothing is imported: an existing
    resource of the same name makes the creation fail.
    """
    if request.get("ChangeSetType") == "IMPORT" or request.get("ResourcesToImport"):
        raise invalid("The embedded account does not support importing resources")
