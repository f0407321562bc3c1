"""Create or update one stack: forward in dependency order, and back when something fails."""

import dataclasses
import logging
import threading
from typing import Any

from embedded_account.cloudformation.actions import Actions
from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.faults import RefusedCallError
from embedded_account.cloudformation.lookups import AccountLookups, StackLookups
from embedded_account.cloudformation.models import tagged
from embedded_account.cloudformation.planning import property_changes, replaces
from embedded_account.cloudformation.stack import Desired, Output, Stack, StackResource
from embedded_account.cloudformation.store import Store
from embedded_account.cloudformation.templates.dependencies import walk
from embedded_account.cloudformation.templates.intrinsics import Intrinsics, as_text
from embedded_account.errors import ResourceError
from embedded_account.services.shared.resource_model import REGISTERED

_log = logging.getLogger(__name__)


@dataclasses.dataclass
class Base:
    """The state before a deployment, to which a rollback returns.

    `made` are the resources created since, `touched` those updated in place (or tried to), `superseded` those that a
    replacement left behind. A paused deployment passes its base to the next deployment.
    """

    desired: Desired
    resources: dict[str, StackResource]
    imports: frozenset[str]
    made: list[StackResource] = dataclasses.field(default_factory=list)
    touched: dict[str, StackResource] = dataclasses.field(default_factory=dict)
    superseded: list[StackResource] = dataclasses.field(default_factory=list)


class Deployment:
    """Brings a stack to `desired`."""

    def __init__(
        self,
        stack: Stack,
        desired: Desired,
        actions: Actions,
        lookups: AccountLookups,
        store: Store,
        *,
        base: Base,
        creating: bool,
        retain_except_on_create: bool = False,
    ) -> None:
        self.base = base
        self._stack = stack
        self._desired = desired
        self._actions = actions
        self._store = store
        self._creating = creating
        self._delete_retained = retain_except_on_create
        self._types = lookups.resource_types
        self._lock = threading.Lock()
        self._surroundings = StackLookups(lookups, stack.resources)
        self._intrinsics = intrinsics_of(stack, desired, self._surroundings)
        self._live = desired.live

    # --- forward -----------------------------------------------------------------------------------------

    def forward(self) -> str | None:
        """Create and update all resources, then set the outputs; return what failed, or None."""
        graph = self._desired.needs
        failed = walk(graph, lambda logical_id: self._deploy(logical_id, graph[logical_id]), stop_on_failure=True)
        if failed:
            for logical_id, error in failed.items():
                if not isinstance(error, ResourceError):
                    _log.error("%s %s", self._stack.name, logical_id, exc_info=error)
            return self._summary(set(failed))
        try:
            outputs = self._outputs()
        except (RefusedCallError, ResourceError) as error:
            return str(error)
        return self._commit(outputs)

    def clean_up(self) -> bool:
        """Delete what the new template lacks, and what replacements left behind; return whether all could be deleted.

        A resource that cannot be deleted stays in the account and no longer belongs to the stack.
        """
        stack = self._stack
        removed = [resource for name, resource in stack.resources.items() if name not in self._live]
        superseded = self.base.superseded
        replaced = {id(resource) for resource in superseded}

        def keep(resource: StackResource) -> bool:
            policy = "UpdateReplacePolicy" if id(resource) in replaced else "DeletionPolicy"
            return str(resource.definition.get(policy, "Delete")).startswith("Retain")

        all_deleted = self._actions.clean_up([*removed, *superseded], keep)
        for resource in removed:
            del stack.resources[resource.logical_id]
        return all_deleted

    def _deploy(self, logical_id: str, depends_on: frozenset[str]) -> None:
        if self._actions.failed:
            return
        definition = self._live[logical_id]
        existing = self._stack.resources.get(logical_id)
        properties = self._properties(logical_id, definition)
        wanted = StackResource(logical_id, definition["Type"], definition, properties, depends_on)
        if existing is None or existing.handle is None or existing.status in {"CREATE_FAILED", "DELETE_FAILED"}:
            if existing is not None and existing.handle is not None:
                # A resource left by an earlier attempt may have the name that the new one needs.
                if self._actions.delete([existing], keep=lambda _: False):
                    raise ResourceError(f"{logical_id} could not be deleted: {existing.reason}")
                self.base.made = [made for made in self.base.made if made is not existing]
            self._create(wanted)
            return
        changes = property_changes(wanted.type, existing.properties, properties, self._types)
        if replaces(changes):
            self._replace(existing, wanted)
        elif changes or existing.status == "UPDATE_FAILED":
            # The record has the properties of an update that failed, the resource may have those before.
            self._update(existing, wanted)
        else:
            self._take_over(existing, wanted)

    def _create(self, wanted: StackResource) -> None:
        with self._lock:
            self._stack.resources[wanted.logical_id] = wanted
            self.base.made.append(wanted)
        self._actions.create(wanted)

    def _take_over(self, existing: StackResource, wanted: StackResource) -> None:
        """Keep the resource, and record the new template's text (policies, metadata, dependencies)."""
        wanted.handle = existing.handle
        wanted.status, wanted.reason, wanted.timestamp = existing.status, existing.reason, existing.timestamp
        self._swap(existing, wanted)

    def _replace(self, existing: StackResource, wanted: StackResource) -> None:
        self._refuse_same_name(existing, wanted)
        with self._lock:
            self._stack.resources[wanted.logical_id] = wanted
            self.base.made.append(wanted)
            self.base.superseded.append(existing)
        self._actions.create(wanted, verb="UPDATE")

    def _update(self, existing: StackResource, wanted: StackResource) -> None:
        wanted.handle = existing.handle
        self._swap(existing, wanted)
        with self._lock:
            self.base.touched[wanted.logical_id] = wanted
        self._actions.update(wanted, existing.properties)
        # If a custom resource returns another id, the old resource must be deleted.
        if is_custom(wanted.type) and wanted.physical_id != existing.physical_id:
            with self._lock:
                self.base.superseded.append(existing)

    def _swap(self, existing: StackResource, wanted: StackResource) -> None:
        with self._lock:
            self._stack.resources[wanted.logical_id] = wanted
            self.base.made = [wanted if made is existing else made for made in self.base.made]

    def _refuse_same_name(self, existing: StackResource, wanted: StackResource) -> None:
        name_property = REGISTERED[wanted.type].NAME
        name = wanted.properties.get(name_property)
        if name and name == existing.properties.get(name_property):
            reason = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename "
                f"{name} and update the stack again."
            )
            self._stack.set_resource_status(existing, "UPDATE_FAILED", reason)
            raise ResourceError(reason)

    def _properties(self, logical_id: str, definition: dict[str, Any]) -> dict[str, Any]:
        try:
            properties = self._intrinsics.resolve(definition.get("Properties", {}))
        except (RefusedCallError, ResourceError) as error:
            failed = self._stack.resources.get(logical_id) or StackResource(
                logical_id, definition["Type"], definition, {}, frozenset()
            )
            verb = "UPDATE" if failed.handle else "CREATE"
            self._stack.set_resource_status(failed, f"{verb}_FAILED", str(error))
            raise ResourceError(str(error)) from error
        return tagged(self._types, definition["Type"], properties, self._desired.tags)

    def _outputs(self) -> tuple[Output, ...]:
        outputs = []
        for key, item in self._desired.template.get("Outputs", {}).items():
            if self._intrinsics.applies(item):
                value, export = self._intrinsics.resolve(item["Value"]), item.get("Export")
                if isinstance(value, dict | list):
                    raise ResourceError(f"Template format error: Output {key} is malformed: it is not a text")
                name = as_text(self._intrinsics.resolve(export["Name"])) if export else None
                outputs.append(Output(key, as_text(value), item.get("Description"), name))
        return tuple(outputs)

    def _commit(self, outputs: tuple[Output, ...]) -> str | None:
        with self._store.lock:
            problem = self._store.export_problem(self._stack, outputs)
            if problem:
                return problem
            self._stack.outputs = outputs
            self._stack.imports = frozenset(self._surroundings.imports)
        return None

    def _summary(self, failed: set[str]) -> str:
        """Return CloudFormation's sentence about the failed resources, cancelled ones included."""
        created: list[str] = []
        updated: list[str] = []
        for resource in self._stack.resources.values():
            if resource.logical_id in failed or resource.status in {"CREATE_FAILED", "UPDATE_FAILED"}:
                (updated if resource.status == "UPDATE_FAILED" else created).append(resource.logical_id)
        unknown = failed - {*created, *updated}
        created += sorted(unknown)
        sentences = [
            f"The following resource(s) failed to {verb}: [{', '.join(names)}]. "
            for verb, names in (("create", created), ("update", updated))
            if names
        ]
        return "".join(sentences)

    # --- back --------------------------------------------------------------------------------------------

    def back(self, skip: frozenset[str] = frozenset()) -> str | None:
        """Undo the updates in place; return what failed, or None. A creation has none.

        `skip` names resources that stay as they are (ContinueUpdateRollback's ResourcesToSkip).
        """
        base, stack = self.base, self._stack
        graph = {
            name: {other for other in base.resources[name].depends_on if other in base.touched}
            for name in base.touched
            if name in base.resources and name not in skip
        }
        failed = walk(graph, self._restore, stop_on_failure=False)
        if failed:
            return f"The following resource(s) failed to update: [{', '.join(sorted(failed))}]. "
        made = [resource for resource in stack.resources.values() if resource.logical_id not in base.resources]
        stack.resources.clear()
        stack.resources.update(base.resources)
        for resource in made if self._creating else []:
            stack.resources[resource.logical_id] = resource
        stack.imports = base.imports
        return None

    def clean_up_back(self) -> list[StackResource]:
        """Delete what the failed creation made; return what remains."""
        remaining = self._actions.delete(self.base.made, self._is_kept_back)
        for resource in self.base.made:
            if resource not in remaining:
                self._stack.resources.pop(resource.logical_id, None)
        return remaining

    def clean_up_after_rollback(self) -> bool:
        """Delete what the failed update made; return whether all could be deleted."""
        return self._actions.clean_up(self.base.made, self._is_kept_back)

    def _is_kept_back(self, resource: StackResource) -> bool:
        policy = resource.definition.get("DeletionPolicy", "Delete")
        return bool(policy == "Retain" and not self._delete_retained)

    def _restore(self, logical_id: str) -> None:
        """Restore the previous properties of one resource."""
        old, current = self.base.resources[logical_id], self.base.touched[logical_id]
        if old.handle is None or current.handle is None:
            return
        if current.status == "UPDATE_FAILED" and current.physical_id != old.physical_id:
            # The replacement failed: the old resource was never touched, and the new one must be deleted.
            self.base.made.append(dataclasses.replace(current))
            return
        restored = dataclasses.replace(old, handle=current.handle)
        changed_id = current.physical_id
        self._actions.update(restored, current.properties)
        if is_custom(old.type) and restored.physical_id != changed_id:
            with self._lock:
                self.base.made.append(dataclasses.replace(current, depends_on=old.depends_on))
        self.base.resources[logical_id] = restored


def intrinsics_of(stack: Stack, desired: Desired, surroundings: StackLookups) -> Intrinsics:
    """Return what evaluates the template of `desired` for `stack`."""
    partition, _, region, account_id = stack.stack_id.split(":")[1:5]
    pseudo = {
        "AWS::AccountId": account_id,
        "AWS::NotificationARNs": [],
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackId": stack.stack_id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": "amazonaws.com",
    }
    return Intrinsics(desired.template, {**pseudo, **desired.parameters.values}, surroundings)
