"""Decide which operations a stack allows in its status, and carry each one out in a thread."""

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embedded_account.cloudformation.actions import Actions
from embedded_account.cloudformation.custom_resources import CustomResources, is_custom
from embedded_account.cloudformation.deployment import Base, Deployment
from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.faulty import FaultyHandler
from embedded_account.cloudformation.handlers import Marker, ResourceHandler
from embedded_account.cloudformation.lookups import AccountLookups
from embedded_account.cloudformation.models import ModelHandler
from embedded_account.cloudformation.permitted import PermittedHandler, caller
from embedded_account.cloudformation.rights import RIGHTS
from embedded_account.cloudformation.service_role import require_assumable
from embedded_account.cloudformation.stack import NOTHING, Desired, Stack, StackResource, now
from embedded_account.cloudformation.store import Store
from embedded_account.cloudformation.templates.resource_types import METADATA_TYPE
from embedded_account.errors import reason_of

if TYPE_CHECKING:
    from embedded_account.context import Account

_UPDATABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
_PAUSED = {"CREATE_FAILED", "UPDATE_FAILED"}
_USER = "User Initiated"
_SKIPPED = "One or more resources could not be deleted."
"""CloudFormation's reason for an update that left something behind.

Source: aws-cloudformation/cloudformation-coverage-roadmap issue 744, serverless/serverless issue 9144.
"""

OnFailure = Literal["ROLLBACK", "DELETE", "DO_NOTHING"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The options of one deployment. `token` marks its events (ClientRequestToken)."""

    on_failure: OnFailure = "ROLLBACK"
    retain_except_on_create: bool = False
    token: str | None = None


class Engine:
    """CloudFormation's operations. Each returns at once, and a thread does the work."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self.store = Store()
        self.lookups = AccountLookups(account, self.store)
        self._models = ModelHandler(account)
        self._custom_resources = CustomResources(account)
        self._marker = Marker()
        self._unfinished: dict[str, Deployment] = {}

    def handler_for(self, resource_type: str) -> ResourceHandler:
        """Return the handler of a resource type."""
        if resource_type == METADATA_TYPE:
            return self._marker
        handler: ResourceHandler = self._custom_resources if is_custom(resource_type) else self._models
        return FaultyHandler(handler, self._account) if self._account.action_faults else handler

    def new_stack(self, name: str) -> Stack:
        """Return a new stack without a deployment; it is not in the store yet."""
        where = f"arn:aws:cloudformation:{self._account.region}:{self._account.account_id}"
        return Stack(f"{where}:stack/{name}/{uuid.uuid4()}", name)

    def require_updatable(self, stack: Stack) -> None:
        """Raise RefusedCallError if the stack's status does not allow an update."""
        if stack.status not in _UPDATABLE | _PAUSED:
            raise invalid(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")

    def deploy(self, stack: Stack, desired: Desired, options: Options) -> None:
        """Create or update `stack`, depending on its status."""
        require_assumable(self._account, desired.role_arn)
        with stack.lock:
            creating = stack.status == "REVIEW_IN_PROGRESS"
            if not creating:
                self.require_updatable(stack)
                if stack.status in _PAUSED and options.on_failure == "ROLLBACK":
                    raise invalid(
                        f"This stack is currently in a non-terminal [{stack.status}] state. To update the stack "
                        "from this state, please use the disable-rollback parameter with update-stack API. To "
                        "rollback to the last known good state, use the rollback-stack API"
                    )
            stack.token = options.token
            stack.updated = None if creating else now()
            stack.set_status("CREATE_IN_PROGRESS" if creating else "UPDATE_IN_PROGRESS", _USER)
        previous = self._unfinished.pop(stack.stack_id, None)
        base = previous.base if previous else Base(stack.desired, dict(stack.resources), stack.imports)
        stack.desired = desired
        self._start(stack, lambda: self._deploy(stack, desired, options, base, creating=creating))

    def delete(self, stack: Stack, *, retain: frozenset[str], token: str | None) -> None:
        """Delete `stack`; `retain` names resources that stay in the account."""
        if stack.status != "DELETE_COMPLETE":
            require_assumable(self._account, stack.desired.role_arn)
        with stack.lock:
            if stack.status == "DELETE_COMPLETE":
                return
            if stack.termination_protection:
                raise invalid(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
            if stack.busy:
                raise invalid(f"Stack:{stack.stack_id} is in {stack.status} state and can not be deleted.")
            if retain and stack.status != "DELETE_FAILED":
                raise invalid(
                    "Invalid operation on stack. RetainResources can only be used in the DELETE_FAILED state."
                )
            before, stack.token = stack.status, token
            stack.set_status("DELETE_IN_PROGRESS", _USER)
        self._start(stack, lambda: self._delete(stack, before, retain))

    def roll_back(self, stack: Stack, token: str | None) -> None:
        """Roll a stack that a failure paused back to its last stable state (RollbackStack)."""
        with stack.lock:
            deployment = self._unfinished.get(stack.stack_id)
            if stack.status not in _PAUSED or deployment is None:
                raise invalid(f"Stack:{stack.stack_id} is in {stack.status} state and can not be rolled back.")
            stack.token = token
        self._begin_rollback(stack, deployment, "Rollback requested by user.")

    def continue_rollback(self, stack: Stack, skip: frozenset[str], token: str | None) -> None:
        """Retry a failed rollback of an update (ContinueUpdateRollback)."""
        with stack.lock:
            deployment = self._unfinished.get(stack.stack_id)
            if stack.status != "UPDATE_ROLLBACK_FAILED" or deployment is None:
                raise invalid(
                    f"Stack:{stack.stack_id} is in {stack.status} state and can not continue an update rollback."
                )
            stack.token = token
        self._begin_rollback(stack, deployment, _USER, skip)

    # --- the threads -------------------------------------------------------------------------------------

    def _start(self, stack: Stack, operation: Callable[[], None]) -> None:
        stack.caller = caller()

        def run() -> None:
            try:
                operation()
            except Exception as error:  # noqa: BLE001 - no stack may stay in progress forever
                _log.exception("operation on %s", stack.name)
                failed = stack.status.removesuffix("_IN_PROGRESS").removesuffix("_COMPLETE_CLEANUP")
                stack.set_status(f"{failed}_FAILED", reason_of(error))

        threading.Thread(target=run, name=f"cloudformation-{stack.name}", daemon=True).start()

    def _deploy(self, stack: Stack, desired: Desired, options: Options, base: Base, *, creating: bool) -> None:
        deployment = Deployment(
            stack,
            desired,
            self._actions(stack, desired),
            self.lookups,
            self.store,
            base=base,
            # A paused creation that an update resumes still has no earlier state.
            creating=base.desired is NOTHING,
            retain_except_on_create=options.retain_except_on_create,
        )
        failure = deployment.forward()
        if failure is None:
            if creating:
                stack.set_status("CREATE_COMPLETE")
            else:
                stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
                all_deleted = deployment.clean_up()
                stack.set_status("UPDATE_COMPLETE", None if all_deleted else f"Update successful. {_SKIPPED}")
        elif options.on_failure == "ROLLBACK":
            self._roll_back(stack, deployment, failure)
        else:
            self._unfinished[stack.stack_id] = deployment
            stack.set_status("CREATE_FAILED" if creating else "UPDATE_FAILED", failure)
            if options.on_failure == "DELETE":
                stack.set_status("DELETE_IN_PROGRESS", failure)
                self._delete(stack, "CREATE_FAILED", frozenset())

    def _begin_rollback(
        self, stack: Stack, deployment: Deployment, reason: str, skip: frozenset[str] = frozenset()
    ) -> None:
        stack.set_status(f"{_rollback_verb(deployment)}_IN_PROGRESS", reason)
        self._start(stack, lambda: self._finish_rollback(stack, deployment, skip))

    def _roll_back(self, stack: Stack, deployment: Deployment, failure: str) -> None:
        stack.set_status(f"{_rollback_verb(deployment)}_IN_PROGRESS", failure)
        self._finish_rollback(stack, deployment, frozenset())

    def _finish_rollback(self, stack: Stack, deployment: Deployment, skip: frozenset[str]) -> None:
        self._unfinished[stack.stack_id] = deployment
        verb = _rollback_verb(deployment)
        problem = deployment.back(skip)
        if problem:
            stack.set_status(f"{verb}_FAILED", problem)
            return
        if deployment.base.desired is NOTHING:
            if left := deployment.clean_up_back():
                stack.set_status(f"{verb}_FAILED", _failed_to_delete(left))
                return
            all_deleted = True
        else:
            stack.desired = deployment.base.desired
            stack.set_status(f"{verb}_COMPLETE_CLEANUP_IN_PROGRESS")
            all_deleted = deployment.clean_up_after_rollback()
        del self._unfinished[stack.stack_id]
        stack.set_status(f"{verb}_COMPLETE", None if all_deleted else _SKIPPED)

    def _delete(self, stack: Stack, before: str, retain: frozenset[str]) -> None:
        with self.store.lock:
            problem = self.store.export_in_use(stack)
        if problem:
            stack.set_status(before, f"Delete canceled. {problem}")
            return

        def keep(resource: StackResource) -> bool:
            policy = str(resource.definition.get("DeletionPolicy", "Delete"))
            return policy.startswith("Retain") or resource.logical_id in retain

        resources = list(stack.resources.values())
        unfinished = self._unfinished.get(stack.stack_id)
        if unfinished:
            known = {id(resource) for resource in resources}
            left_over = [*unfinished.base.superseded, *unfinished.base.made]
            resources += [resource for resource in left_over if id(resource) not in known]
        remaining = self._actions(stack, stack.desired).delete(resources, keep)
        # The next deletion also deletes what this one did not reach, because a resource that depends on it remains.
        stack.resources = {resource.logical_id: resource for resource in remaining}
        if remaining:
            stack.set_status("DELETE_FAILED", _failed_to_delete(remaining))
            return
        self._unfinished.pop(stack.stack_id, None)
        with self.store.lock:
            stack.outputs, stack.imports, stack.deleted = (), frozenset(), now()
            stack.set_status("DELETE_COMPLETE")
            self.store.drop_change_sets(stack)

    def _actions(self, stack: Stack, desired: Desired) -> Actions:
        principal = desired.role_arn or stack.caller

        def permitted(resource_type: str) -> ResourceHandler:
            handler = self.handler_for(resource_type)
            return PermittedHandler(handler, self._account, principal) if resource_type in RIGHTS else handler

        return Actions(self._account, permitted, stack, desired.tags, desired.role_arn)


def _rollback_verb(deployment: Deployment) -> str:
    return "ROLLBACK" if deployment.base.desired is NOTHING else "UPDATE_ROLLBACK"


def _failed_to_delete(resources: list[StackResource]) -> str:
    names = ", ".join(sorted(resource.logical_id for resource in resources if resource.status == "DELETE_FAILED"))
    return f"The following resource(s) failed to delete: [{names}]. "
