"""Answer CloudFormation's API: call the engine, and return answers in the shapes of AWS's service model."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from embedded_account.cloudformation.api import descriptions, limits
from embedded_account.cloudformation.api.drift import Detections
from embedded_account.cloudformation.api.requests import (
    Request,
    desired_state,
    refuse_imports,
    template_body,
)
from embedded_account.cloudformation.change_set import ChangeSet
from embedded_account.cloudformation.change_sets import make_change_set
from embedded_account.cloudformation.engine import Engine, OnFailure, Options
from embedded_account.cloudformation.faults import RefusedCallError, invalid, no_change_set
from embedded_account.cloudformation.service_role import require_assumable
from embedded_account.cloudformation.stack import Stack
from embedded_account.cloudformation.templates.template import parse

if TYPE_CHECKING:
    from embedded_account.context import Account

Answer = dict[str, Any]
EVENTS_PER_PAGE = 100


class CloudFormationApi:
    """CloudFormation's operations: one method each, named as in the API but in snake case."""

    def __init__(self, account: "Account", engine: Engine) -> None:
        self._account = account
        self._engine = engine
        self._store = engine.store
        self._detections = Detections()

    def operations(self) -> dict[str, Callable[[Request], Answer]]:
        """Return all operations by name."""
        names = [name for name in vars(CloudFormationApi) if not name.startswith("_") and name != "operations"]
        return {name: getattr(self, name) for name in names}

    # --- stacks ------------------------------------------------------------------------------------------

    def create_stack(self, request: Request) -> Answer:
        stack = self._new_stack(request["StackName"])
        desired = desired_state(self._account, request, stack, self._engine.lookups)
        stack.termination_protection = bool(request.get("EnableTerminationProtection"))
        self._store.add(stack)
        self._engine.deploy(stack, desired, _options(request))
        return {"StackId": stack.stack_id}

    def update_stack(self, request: Request) -> Answer:
        refuse_imports(request)
        stack = self._store.get(request["StackName"])
        self._engine.require_updatable(stack)
        desired = desired_state(self._account, request, stack, self._engine.lookups)
        probe = make_change_set("probe", stack, desired, self._engine.lookups, kind="UPDATE")
        if probe.status == "FAILED":
            raise invalid("No updates are to be performed.")
        self._engine.deploy(stack, desired, _options(request))
        return {"StackId": stack.stack_id}

    def delete_stack(self, request: Request) -> Answer:
        stack = self._store.find(request["StackName"])
        if stack is not None:
            require_assumable(self._account, request.get("RoleARN"))
            retain = frozenset(request.get("RetainResources") or ())
            self._engine.delete(stack, retain=retain, token=request.get("ClientRequestToken"))
        return {}

    def rollback_stack(self, request: Request) -> Answer:
        stack = self._store.get(request["StackName"])
        self._engine.roll_back(stack, request.get("ClientRequestToken"))
        return {"StackId": stack.stack_id}

    def continue_update_rollback(self, request: Request) -> Answer:
        skip = frozenset(request.get("ResourcesToSkip") or ())
        stack = self._store.get(request["StackName"])
        self._engine.continue_rollback(stack, skip, request.get("ClientRequestToken"))
        return {}

    def update_termination_protection(self, request: Request) -> Answer:
        stack = self._store.get(request["StackName"])
        stack.termination_protection = bool(request["EnableTerminationProtection"])
        return {"StackId": stack.stack_id}

    def describe_stacks(self, request: Request) -> Answer:
        name = request.get("StackName")
        stacks = [self._store.get(name)] if name else self._store.living()
        return {"Stacks": [descriptions.stack(stack) for stack in stacks]}

    def list_stacks(self, request: Request) -> Answer:
        wanted = request.get("StackStatusFilter")
        stacks = [stack for stack in self._store.stacks() if not wanted or stack.status in wanted]
        return {"StackSummaries": [descriptions.stack_summary(stack) for stack in stacks]}

    def describe_stack_events(self, request: Request) -> Answer:
        stack = self._store.get(request["StackName"])
        return _page("StackEvents", [descriptions.event(event) for event in reversed(stack.events)], request)

    def describe_events(self, request: Request) -> Answer:
        """Return the newer form of DescribeStackEvents; the CDK CLI calls it for failed change sets."""
        if request.get("ChangeSetName"):
            return {"OperationEvents": []}
        stack = self._store.get(request["StackName"])
        events = [descriptions.operation_event(event) for event in reversed(stack.events)]
        return _page("OperationEvents", events, request)

    def describe_stack_resource(self, request: Request) -> Answer:
        stack, name = self._store.get(request["StackName"]), request["LogicalResourceId"]
        if name not in stack.resources:
            raise invalid(f"Resource {name} does not exist for stack {stack.name}")
        return {"StackResourceDetail": descriptions.resource_detail(stack, stack.resources[name])}

    def describe_stack_resources(self, request: Request) -> Answer:
        physical_id, wanted = request.get("PhysicalResourceId"), request.get("LogicalResourceId")
        if request.get("StackName"):
            stack = self._store.get(request["StackName"])
        else:
            owners = [s for s, resource in self._store.owners() if resource.physical_id == physical_id]
            if not owners:
                raise invalid(f"Stack for {physical_id} does not exist")
            stack = owners[0]
        found = [
            descriptions.resource(stack, resource)
            for resource in stack.resources.values()
            if wanted in (None, resource.logical_id)
        ]
        return {"StackResources": found}

    def list_stack_resources(self, request: Request) -> Answer:
        stack = self._store.get(request["StackName"])
        return {
            "StackResourceSummaries": [descriptions.resource_summary(resource) for resource in stack.resources.values()]
        }

    # --- drift -------------------------------------------------------------------------------------------

    def detect_stack_drift(self, request: Request) -> Answer:
        if request.get("LogicalResourceIds"):
            raise invalid("The embedded account detects the drift of whole stacks only")
        return {"StackDriftDetectionId": self._detections.start(self._store.get(request["StackName"])).id}

    def describe_stack_drift_detection_status(self, request: Request) -> Answer:
        return self._detections.get(request["StackDriftDetectionId"]).describe()

    def describe_stack_resource_drifts(self, request: Request) -> Answer:
        wanted = request.get("StackResourceDriftStatusFilters")
        found = self._detections.results(self._store.get(request["StackName"]))
        return {
            "StackResourceDrifts": [each for each in found if not wanted or each["StackResourceDriftStatus"] in wanted]
        }

    # --- templates ---------------------------------------------------------------------------------------

    def get_template(self, request: Request) -> Answer:
        name, change_set = request.get("StackName"), request.get("ChangeSetName")
        if change_set:
            body = self._store.find_change_set(change_set, name).desired.body
        else:
            body = self._store.get(str(name)).desired.body
        return {"TemplateBody": body, "StagesAvailable": ["Original", "Processed"]}

    def get_template_summary(self, request: Request) -> Answer:
        name = request.get("StackName")
        if name:
            stack = self._store.get(name)
            if stack.status == "REVIEW_IN_PROGRESS":
                raise invalid("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
            template = stack.desired.template
        else:
            template = parse(template_body(self._account, request))
        return descriptions.template_summary(template)

    def validate_template(self, request: Request) -> Answer:
        return descriptions.validated_template(parse(template_body(self._account, request)))

    # --- change sets -------------------------------------------------------------------------------------

    def create_change_set(self, request: Request) -> Answer:
        refuse_imports(request)
        kind = request.get("ChangeSetType") or "UPDATE"
        stack, is_new = self._stack_for_change_set(request["StackName"], kind)
        desired = desired_state(self._account, request, stack, self._engine.lookups)
        change_set = make_change_set(
            request["ChangeSetName"],
            stack,
            desired,
            self._engine.lookups,
            kind=kind,
            description=request.get("Description"),
        )
        if is_new:
            self._store.add(stack)
            stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
        self._store.add_change_set(change_set)
        return {"Id": change_set.change_set_id, "StackId": stack.stack_id}

    def describe_change_set(self, request: Request) -> Answer:
        change_set = self._change_set(request)
        return descriptions.change_set(change_set, with_values=bool(request.get("IncludePropertyValues")))

    def execute_change_set(self, request: Request) -> Answer:
        change_set = self._change_set(request)
        if change_set.execution_status != "AVAILABLE":
            raise RefusedCallError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current status of "
                f"[{change_set.status}]",
            )
        self._engine.deploy(change_set.stack, change_set.desired, _options(request))
        # An executed change set cannot be executed again, and the other change sets of its stack are outdated.
        self._store.drop_change_sets(change_set.stack)
        return {}

    def delete_change_set(self, request: Request) -> Answer:
        with suppress(RefusedCallError):  # deleting a missing change set succeeds
            self._store.drop_change_set(self._change_set(request))
        return {}

    def list_change_sets(self, request: Request) -> Answer:
        stack = self._store.get(request["StackName"])
        return {"Summaries": [descriptions.change_set_summary(item) for item in self._store.change_sets(stack)]}

    def list_hook_results(self, _request: Request) -> Answer:
        """Return no results: the embedded account has no hooks."""
        return {"HookResults": []}

    # --- exports -----------------------------------------------------------------------------------------

    def list_exports(self, _request: Request) -> Answer:
        return {
            "Exports": [
                {"ExportingStackId": export.stack_id, "Name": export.name, "Value": export.value}
                for export in self._store.exports()
            ]
        }

    def list_imports(self, request: Request) -> Answer:
        name = request["ExportName"]
        importers = self._store.importers(name)
        if not importers:
            raise invalid(f"Export '{name}' is not imported by any stack.")
        return {"Imports": importers}

    # --- helpers -----------------------------------------------------------------------------------------

    def _new_stack(self, name: str) -> Stack:
        if self._store.find(name) is not None:
            raise RefusedCallError("AlreadyExistsException", f"Stack [{name}] already exists")
        limits.check_name(name)
        return self._engine.new_stack(name)

    def _stack_for_change_set(self, name: str, kind: str) -> tuple[Stack, bool]:
        stack = self._store.find(name)
        if kind == "UPDATE":
            if stack is None or stack.status == "DELETE_COMPLETE":
                raise invalid(f"Stack [{name}] does not exist")
            self._engine.require_updatable(stack)
            return stack, False
        if stack is None:
            limits.check_name(name)
            return self._engine.new_stack(name), True
        if stack.status != "REVIEW_IN_PROGRESS":
            raise invalid(f"Stack [{name}] already exists and cannot be created again with the changeSet.")
        return stack, False

    def _change_set(self, request: Request) -> ChangeSet:
        name, stack_name = request["ChangeSetName"], request.get("StackName")
        if stack_name and self._store.find(stack_name) is None:
            raise no_change_set(name)
        return self._store.find_change_set(name, stack_name)


def _options(request: Request) -> Options:
    on_failure: OnFailure = request.get("OnFailure") or "ROLLBACK"
    if request.get("DisableRollback"):
        on_failure = "DO_NOTHING"
    return Options(
        on_failure=on_failure,
        retain_except_on_create=bool(request.get("RetainExceptOnCreate")),
        token=request.get("ClientRequestToken"),
    )


def _page(name: str, items: list[Answer], request: Request) -> Answer:
    start = json.loads(request.get("NextToken") or "0")
    page: Answer = {name: items[start : start + EVENTS_PER_PAGE]}
    if start + EVENTS_PER_PAGE < len(items):
        page["NextToken"] = json.dumps(start + EVENTS_PER_PAGE)
    return page
