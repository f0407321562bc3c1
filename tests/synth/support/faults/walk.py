"""Run the cases of one app, stack after stack, and compare the account before and after each."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from embedded_account.action_faults import KINDS, ActionFault
from embedded_account.cloudformation.actions import CLEAN_UP_ATTEMPTS
from embedded_account.cloudformation.templates.resource_types import resource_types
from embedded_account.inventory.report import KEPT_BY_KMS
from embedded_account.testing.state import account_state
from tests.synth.support.faults.cases import Case, changed, retagged, without
from tests.synth.support.faults.functions import FunctionFault, Planned
from tests.synth.support.faults.world import World

_HISTORY: Final = re.compile(
    "AWSServiceRoleFor|/buckets/templates/|/_updates/|/hyperpod-cluster:|^/hyperpod/.*/(operations|events|nodes)/"
    "|/launch_templates/[^/]*/versions/|/ssm/.*/_parameters/"
    "|/(last_modified|policy/revision|code_or_config_updated|_tick|_version_id)$"
)
"""Paths of what services count or keep of the past: no rollback brings it back."""
_NO_ANSWER: Final = "did not receive a response"
_NO_ROLLBACK: Final[dict[str, Any]] = {"DisableRollback": True}
_SHOWN: Final = 4
"""Maximum number of differences that a violation lists."""


class ViolationError(Exception):
    """An invariant does not hold; the message says which and where."""


@dataclass
class Result:
    """A case that ran. `violation` is empty if all invariants hold; `reached` says whether the fault happened."""

    case: Case
    violation: str = ""
    reached: bool = True
    seconds: float = 0.0


@dataclass(frozen=True)
class Moment:
    """What is in the account: the owner of each resource, all state by path, and what Kubernetes was given."""

    owners: Mapping[tuple[str, str], str]
    state: Mapping[str, Any]
    applied: Mapping[str, Any]


class Walk:
    """The cases of an app in one world. A stack's cases run once the stacks that it needs are deployed."""

    def __init__(self, world: World, cases: Sequence[Case]) -> None:
        self._world = world
        self._cases = cases
        self._absent: dict[str, Moment] = {}
        self.results: list[Result] = []

    def run(self) -> list[Result]:
        """Run all cases; return their results."""
        world = self._world
        last = max(world.parts.index(each.part) for each in self._cases)
        world.furnish()
        for part in world.parts[: last + 1]:
            of_part = [each for each in self._cases if each.part == part]
            self._absent[part] = self._now()
            for case in of_part:
                if case.action == "create":
                    self._try(case, self._create)
            self._deploy(part, "CREATE_COMPLETE")
            for case in of_part:
                if case.action == "update":
                    self._try(case, self._update)
            for case in of_part:
                if case.action == "delete":
                    self._try(case, self._delete if case.end == "retry" else self._remove)
        return self.results

    def _try(self, case: Case, act: Callable[[Case], None]) -> None:
        began, result = time.monotonic(), Result(case)
        try:
            act(case)
            self._forget_faults()
        except Exception as error:  # noqa: BLE001 - whatever a case raises is its result
            result.violation = f"{type(error).__name__}: {error}".removeprefix("ViolationError: ")
        result.reached = self._reached()
        result.seconds = time.monotonic() - began
        self.results.append(result)
        if result.violation:
            self._rebuild(case)

    def _rebuild(self, case: Case) -> None:
        """Bring the account to where the case began."""
        self._forget_faults()
        self._world.furnish()
        for part in self._world.parts:
            self._absent[part] = self._now()
            if part == case.part and case.action == "create":
                return
            self._deploy(part, "CREATE_COMPLETE")
            if part == case.part:
                return

    # --- the cases of one action -------------------------------------------------------------------------

    def _create(self, case: Case) -> None:
        before = self._absent[case.part]
        self._plan(case)
        if case.end == "rollback":
            failed = self._deploy(case.part, "ROLLBACK_COMPLETE", case=case)
        else:
            failed = self._deploy(case.part, "CREATE_FAILED", case=case, **_NO_ROLLBACK)
        if failed:
            self._explained(case)
        if failed and case.end == "retry":
            self._deploy(case.part, "UPDATE_COMPLETE", **_NO_ROLLBACK)
        if failed and case.end == "rollback":
            self._world.functions.deliver_late()
            self._same(before, case.part, absent=True)
            self._gone(case.part, before)
            self._deploy(case.part, "CREATE_COMPLETE")
        self._gone(case.part, before)

    def _update(self, case: Case) -> None:
        world = self._world
        before = self._now(with_state=case.end in {"rollback", "continue"})
        template = world.template(case.part)
        types = resource_types(world.account.node_modules)
        for id, resource in template["Resources"].items():
            # Many other resources change, too, so that a rollback has what to bring back.
            new = changed(resource, types) if id == case.logical_id else retagged(resource, types)
            template["Resources"][id] = new or resource
        self._plan(case, times=2 if case.end == "continue" else 1)
        wanted = {"rollback": "UPDATE_ROLLBACK_COMPLETE", "continue": "UPDATE_ROLLBACK_FAILED"}.get(case.end)
        if wanted:
            failed = self._deploy(case.part, wanted, template, case=case)
        else:
            failed = self._deploy(case.part, "UPDATE_FAILED", template, case=case, **_NO_ROLLBACK)
        if failed:
            self._explained(case)
        if failed and case.end == "continue":
            self._require(case.part, world.continue_rollback(case.part), "UPDATE_ROLLBACK_COMPLETE")
        if failed and wanted:
            world.functions.deliver_late()
            self._same(before, case.part)
        if case.end == "destroy":
            self._gone(case.part, self._absent[case.part])
            self._deploy(case.part, "CREATE_COMPLETE")
            return
        if failed:
            self._deploy(case.part, "UPDATE_COMPLETE", template, **({} if wanted else _NO_ROLLBACK))
        self._deploy(case.part, "UPDATE_COMPLETE")
        self._same(before, case.part, inventory_only=True)

    def _delete(self, case: Case) -> None:
        self._world.unprotect()
        # A failed deletion forgets what it left to its owner.
        retained = self._world.retained(case.part)
        self._plan(case)
        status = self._world.delete(case.part)
        if self._reached() and case.fault != "twice":
            self._require(case.part, status, "DELETE_FAILED")
            self._explained(case)
        self._gone(case.part, self._absent[case.part], retained)
        self._deploy(case.part, "CREATE_COMPLETE")

    def _remove(self, case: Case) -> None:
        """Let an update remove the resource, and its deletion fail in the clean-up."""
        world, template = self._world, self._world.template(case.part)
        smaller = without(template, case.logical_id)
        world.unprotect()
        removed, before = world.handle(case.part, case.logical_id), _kinds(self._here())
        known = removed.keys() & self._here()
        self._plan(case, times=CLEAN_UP_ATTEMPTS if case.end == "left" else 1)
        self._require(case.part, world.deploy(case.part, smaller), "UPDATE_COMPLETE")
        if self._reached() and case.fault != "twice":
            self._explained(case)
        is_left = case.end == "left" and case.moment == "before"
        if ("could not be deleted" in world.reason(case.part)) != (case.end == "left"):
            raise ViolationError(f"{case.part} is updated, {case.end}: {world.reason(case.part)!r}")
        if (known & self._here()) != (known if is_left else set()):
            raise ViolationError(f"{known} {'was deleted' if is_left else 'was not deleted'}")
        if is_left:
            world.remove(removed)
        self._deploy(case.part, "UPDATE_COMPLETE")
        # Generated names differ. What this overlooks, the next deletion of the stack finds.
        if differing := _differences(before, _kinds(self._here())):
            raise ViolationError(f"not as many as before: {differing[:_SHOWN]}")

    # --- faults ------------------------------------------------------------------------------------------

    def _plan(self, case: Case, times: int = 1) -> None:
        if case.fault in KINDS:
            fault = ActionFault(case.type, case.action, case.moment, case.fault, case.logical_id, times)
            self._world.account.action_faults.append(fault)
        else:
            of_function = cast("FunctionFault", case.fault)
            planned = Planned(case.logical_id, case.action.title(), of_function, times)
            self._world.functions.planned.append(planned)

    def _reached(self) -> bool:
        """Return whether the planned fault happened."""
        return not any(each.times for each in self._world.account.action_faults) and all(
            each.hit for each in self._world.functions.planned
        )

    def _forget_faults(self) -> None:
        self._world.functions.deliver_late()
        self._world.account.action_faults.clear()
        self._world.functions.planned.clear()

    # --- what must hold ----------------------------------------------------------------------------------

    def _deploy(
        self, part: str, wanted: str, template: Any = None, *, case: Case | None = None, **execution: Any
    ) -> bool:
        """Deploy; return whether the planned fault let it fail. Any other end raises ViolationError."""
        status = self._world.deploy(part, template, **execution)
        if case and (case.fault == "twice" or not self._reached()):
            self._require(part, status, f"{case.action.upper()}_COMPLETE")
            return False
        self._require(part, status, wanted)
        return case is not None

    def _require(self, part: str, status: str, wanted: str) -> None:
        if status != wanted:
            raise ViolationError(f"{part} is {status}, not {wanted}: {self._world.reasons(part)[-_SHOWN:]}")

    def _explained(self, case: Case) -> None:
        """Require a message that names the resource and the cause."""
        planned = self._world.account.action_faults
        cause = planned[-1].message if planned else _NO_ANSWER
        if not any(id == case.logical_id and cause in why for id, why in self._world.reasons(case.part)):
            raise ViolationError(f"no event of {case.logical_id} says {cause!r}: {self._world.reasons(case.part)}")

    def _gone(self, part: str, before: Moment, retained: Mapping[tuple[str, str], Any] | None = None) -> None:
        """Delete a stack; require that only what it retains remains, and remove this by hand."""
        world = self._world
        world.unprotect()
        retained = world.retained(part) if retained is None else retained
        status = world.delete(part)
        self._require(part, status, "DELETE_COMPLETE")
        world.functions.deliver_late()
        here = world.inventory()
        if lost := [each for each in retained if each not in here]:
            raise ViolationError(f"protected data was deleted: {lost}")
        world.remove(retained)
        self._same(before, part, inventory_only=True)

    def _same(self, before: Moment, part: str, *, inventory_only: bool = False, absent: bool = False) -> None:
        """Require that the account holds what it held before; `absent` says that the stack did not exist then."""
        now = self._now(with_state=not inventory_only)
        stack = self._world.stack(part)
        left = [
            f"{kind} {id} ({owner})"
            for (kind, id), owner in now.owners.items()
            if (kind, id) not in before.owners and not _stays(kind, owner) and id != stack
        ]
        if left:
            raise ViolationError(f"left in the account: {left[:_SHOWN]}")
        if lost := [f"{kind} {id}" for kind, id in before.owners if (kind, id) not in now.owners]:
            raise ViolationError(f"no longer in the account: {lost[:_SHOWN]}")
        if nobody := [
            key for key, owner in now.owners.items() if owner == "nobody" and before.owners.get(key) != owner
        ]:
            raise ViolationError(f"no stack owns {nobody[:_SHOWN]}")
        if differing := _differences(before.applied, now.applied):
            raise ViolationError(f"in Kubernetes: {differing[:_SHOWN]}")
        if inventory_only:
            return
        # What is new is in the inventory. Within a stack that existed before, nothing may be new either, such as a tag.
        known = before.state.keys() if absent else {_backend(path) for path in before.state}
        state = {path: value for path, value in now.state.items() if (path if absent else _backend(path)) in known}
        if differing := _differences(before.state, state):
            raise ViolationError(f"not as before: {differing[:_SHOWN]}")

    def _here(self) -> set[tuple[str, str]]:
        """Return type and id of the resources that no service keeps on its own."""
        return {(kind, id) for (kind, id), owner in self._world.inventory().items() if not _stays(kind, owner)}

    def _now(self, *, with_state: bool = True) -> Moment:
        world = self._world
        if with_state:
            world.functions.rest()
        everything = account_state(world.account) if with_state else {}
        state = {path: value for path, value in everything.items() if not _HISTORY.search(path)}
        return Moment(world.inventory(), state, dict(world.functions.applied))


def _backend(path: str) -> str:
    """Return the part of the path that names service, account and region: moto makes one when it is first asked."""
    return "/".join(path.split("/")[:4])


def _stays(kind: str, owner: str) -> bool:
    """Return whether AWS keeps this: KMS a key for its window, an account a service-linked role, a service its logs."""
    of_service = kind == "AWS::Logs::LogGroup" and owner.startswith("background:")
    return owner == KEPT_BY_KMS or ":role/aws-service-role/" in owner or of_service


def _kinds(resources: Iterable[tuple[str, str]]) -> Counter[str]:
    return Counter[str](kind for kind, _ in resources)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {str(before.get(name, '(none)'))[:80]} → {str(after.get(name, '(none)'))[:80]}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
