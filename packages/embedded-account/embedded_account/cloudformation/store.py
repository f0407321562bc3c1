"""Store the account's stacks, their change sets and the exports between them."""

import threading
from collections.abc import Iterator
from typing import NamedTuple

from embedded_account.cloudformation.change_set import ChangeSet
from embedded_account.cloudformation.faults import RefusedCallError, invalid, no_change_set, no_stack
from embedded_account.cloudformation.stack import Output, Stack, StackResource


class Export(NamedTuple):
    """A value that a stack exports."""

    stack_id: str
    name: str
    value: str


class Store:
    """The account's stacks. `lock` guards all of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}

    def clear(self) -> None:
        """Remove all stacks and change sets (for tests)."""
        with self.lock:
            self._stacks.clear()
            self._change_sets.clear()

    def add(self, stack: Stack) -> None:
        """Add a new stack."""
        with self.lock:
            self._stacks[stack.stack_id] = stack

    def forget(self, stack: Stack) -> None:
        """Remove a stack that was never created."""
        with self.lock:
            self._stacks.pop(stack.stack_id)

    def stacks(self) -> list[Stack]:
        """Return all stacks, deleted ones included, the latest first."""
        with self.lock:
            return list(reversed(self._stacks.values()))

    def living(self) -> list[Stack]:
        """Return the stacks that are not deleted, the latest first."""
        return [stack for stack in self.stacks() if stack.status != "DELETE_COMPLETE"]

    def find(self, name_or_id: str) -> Stack | None:
        """Return a stack by its id, or one that is not deleted by its name; None if there is none."""
        with self.lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
        return next((stack for stack in self.living() if stack.name == name_or_id), None)

    def get(self, name_or_id: str) -> Stack:
        """Return a stack as `find` does. Raises RefusedCallError if there is none."""
        stack = self.find(name_or_id)
        if stack is None:
            raise no_stack(name_or_id)
        return stack

    def owners(self) -> Iterator[tuple[Stack, StackResource]]:
        """Yield every existing resource with its stack."""
        for stack in self.living():
            for resource in list(stack.resources.values()):
                yield stack, resource

    # --- change sets -------------------------------------------------------------------------------------

    def add_change_set(self, change_set: ChangeSet) -> None:
        """Add a change set. Raises RefusedCallError if its stack has one of the same name."""
        with self.lock:
            if any(known.name == change_set.name for known in self.change_sets(change_set.stack)):
                raise RefusedCallError(
                    "AlreadyExistsException",
                    f"ChangeSet {change_set.name} cannot be created due to a mismatch with existing attribute Name",
                )
            self._change_sets[change_set.change_set_id] = change_set

    def change_sets(self, stack: Stack) -> list[ChangeSet]:
        """Return the change sets of one stack."""
        with self.lock:
            return [known for known in self._change_sets.values() if known.stack is stack]

    def find_change_set(self, name_or_id: str, stack_name: str | None) -> ChangeSet:
        """Return a change set by its id, or by its name within a stack. Raises RefusedCallError if there is none."""
        with self.lock:
            if name_or_id in self._change_sets:
                return self._change_sets[name_or_id]
        if stack_name is None:
            raise invalid("StackName must be specified if ChangeSetName is not specified as an ARN.")
        for change_set in self.change_sets(self.get(stack_name)):
            if change_set.name == name_or_id:
                return change_set
        raise no_change_set(name_or_id)

    def drop_change_sets(self, stack: Stack) -> None:
        """Remove all change sets of a stack."""
        with self.lock:
            for change_set in self.change_sets(stack):
                del self._change_sets[change_set.change_set_id]

    def drop_change_set(self, change_set: ChangeSet) -> None:
        """Remove one change set."""
        with self.lock:
            self._change_sets.pop(change_set.change_set_id, None)

    # --- exports -----------------------------------------------------------------------------------------

    def exports(self) -> list[Export]:
        """Return the exports of all stacks that are not deleted, sorted by name."""
        with self.lock:
            found = [
                Export(stack.stack_id, output.export, output.value)
                for stack in self.living()
                for output in stack.outputs
                if output.export
            ]
        return sorted(found, key=lambda export: export.name)

    def importers(self, export_name: str) -> list[str]:
        """Return the names of the stacks that import an export, sorted."""
        return sorted(stack.name for stack in self.living() if export_name in stack.imports)

    def imported(self, export_name: str) -> str:
        """Return an export's value. Raises RefusedCallError if no stack exports it."""
        for export in self.exports():
            if export.name == export_name:
                return export.value
        raise invalid(f"No export named {export_name} found.")

    def export_problem(self, stack: Stack, outputs: tuple[Output, ...]) -> str | None:
        """Return why `stack` cannot have these outputs, in CloudFormation's words, or None if it can."""
        after = {output.export: output.value for output in outputs if output.export}
        for export in self.exports():
            if export.stack_id != stack.stack_id:
                if export.name in after:
                    exporter = self.get(export.stack_id).name
                    return f"Export with name {export.name} is already exported by stack {exporter}."
                continue
            if after.get(export.name) == export.value:
                continue
            users = [name for name in self.importers(export.name) if name != stack.name]
            if users:
                verb = "updated" if export.name in after else "deleted"
                return f"Export {export.name} cannot be {verb} as it is in use by {_names(users)}"
        return None

    def export_in_use(self, stack: Stack) -> str | None:
        """Return why its exports keep `stack` from being deleted, or None if no stack imports them."""
        for export in self.exports():
            if export.stack_id == stack.stack_id:
                users = [name for name in self.importers(export.name) if name != stack.name]
                if users:
                    return f"Cannot delete export {export.name} as it is in use by {_names(users)}."
        return None


def _names(users: list[str]) -> str:
    return users[0] if len(users) == 1 else f"{', '.join(users[:-1])} and {users[-1]}"
