"""Fixes in the cluster's handlers, each with the edits that remove it from a copy of their source."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = Path("handlers/hyperpod_cluster")


@dataclass(frozen=True)
class Edit:
    """Replaces `before`, which occurs once in a file of the package, with `after`."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Mend:
    """The promise that a fix keeps, and the edits that remove it."""

    promise: str
    edits: tuple[Edit, ...]

    def write_without(self, directory: Path) -> None:
        """Copy the handlers into the directory, without the fix; raise LookupError if its text is not found."""
        shutil.copytree(ROOT / PACKAGE.parent, directory / PACKAGE.parent, ignore=shutil.ignore_patterns("__pycache__"))
        for edit in self.edits:
            path = directory / PACKAGE / edit.file
            text = path.read_text()
            if text.count(edit.before) != 1:
                raise LookupError(f"{edit.file}: {edit.before!r} occurs {text.count(edit.before)} times, not once")
            path.write_text(text.replace(edit.before, edit.after))


_NEWEST = (
    Edit("precedence.py", "if not set(newest) <= {self._request.id, self._newest_before}:", "if False:"),
    Edit("precedence.py", "if self._request.id in known[:-1]:", "if False:"),
)
_OPERATION = (
    Edit("precedence.py", "if self._direction() is not self.goes_back():", "if False:"),
    Edit("precedence.py", "if status not in _FORWARD | _BACK:", "if False:"),
)
_LEFT = "return bool(live) and _holds(_as_text(before), _as_text(live))"
_ADDED = "added = (noted & present) | (wanted - present)"
_UNSETTLED = "unsettled = not change.in_service or self._precedence.goes_back()"

MENDS: Final = (
    Mend("a request writes nothing after a newer one", _NEWEST),
    Mend("a request writes nothing when its operation is over", _OPERATION),
    Mend("a superseded request writes nothing", _NEWEST + _OPERATION),
    Mend(
        "an update that is delivered again is no rollback",
        (Edit("update.py", "if goes_back and noted_by(tags) == self._request.id:", "if False:"),),
    ),
    Mend("a field that is still there was not taken away", (Edit("changes.py", _LEFT, "return False"),)),
    Mend("a field with another value by now is gone", (Edit("changes.py", _LEFT, "return bool(live)"),)),
    Mend(
        "what is taken away is said, not left out",
        (Edit("changes.py", "_with_none(before.get(name, {}), group, _NONE)", "dict(group)"),),
    ),
    Mend(
        "the guard acts only while its stack goes",
        (
            Edit("teardown.py", "if status not in _THE_STACK_GOES:", "if False:"),
            Edit(
                "teardown.py",
                "if self._hyperpod.stack_status(self._request.stack_id) not in _THE_STACK_GOES:",
                "if False:",
            ),
        ),
    ),
    Mend(
        "a creation that is repeated asks for its stack's status",
        (
            Edit(
                "cluster.py",
                'if request.type != "Delete":',
                'if request.type == "Update":',
            ),
        ),
    ),
    Mend(
        "a cluster is taken over when it becomes known",
        (Edit("cluster.py", "if not (lags and self._hyperpod.pause()):", "if True:"),),
    ),
    Mend(
        "a creation that is delivered again keeps what was changed by hand",
        (Edit("cluster.py", "differs = not created_by(self._request, tags_before)", "differs = True"),),
    ),
    Mend(
        "the guard looks twice",
        (
            Edit(
                "teardown.py",
                "            self._hyperpod.sleep(LOOK_AGAIN_SECONDS)\n            self._delete_leftovers()\n",
                "            pass\n",
            ),
        ),
    ),
    Mend("a Delete looks twice", (Edit("cluster.py", "if cluster is None and twice:", "if False:"),)),
    Mend(
        "a rollback looks again for what it takes back",
        (Edit("cluster.py", _UNSETTLED, "unsettled = not change.in_service"),),
    ),
    Mend(
        "a failed deletion is told in the service's words",
        (
            Edit(
                "failure.py",
                'return f"{status}; the service says: {message}" if message else status',
                "return status",
            ),
        ),
    ),
    Mend(
        "an update that meets another one is sent later",
        (Edit("cluster.py", _UNSETTLED, "unsettled = self._precedence.goes_back()"),),
    ),
    Mend(
        "a chain of updates notes what each of them added",
        (Edit("update.py", _ADDED, "added = wanted - present"),),
    ),
    Mend(
        "what is to go with consent is noted until it is gone",
        (
            Edit(
                "update.py",
                _ADDED,
                "added = {name for name in noted & present if name in wanted or name not in self._request.confirmed} "
                "| (wanted - present)",
            ),
        ),
    ),
    Mend(
        "a group that is being deleted is not there",
        (Edit("update.py", "live_groups(self._cluster)", "group_names(self._cluster)"),),
    ),
    Mend(
        "the note of added groups goes with the rollback",
        (Edit("cluster.py", "            change.forget_added()\n", ""),),
    ),
    Mend(
        "a cluster that just went has no tags",
        (Edit("service.py", 'in {"ResourceNotFound", "ValidationException"} and', 'in {"ResourceNotFound"} and'),),
    ),
    Mend(
        "a count that was raised by hand is not lowered",
        (Edit("changes.py", "            found[name] = count\n", "            pass\n"),),
    ),
    Mend(
        "an update is done when the removed groups are gone",
        (Edit("changes.py", "if not (request or removed or changed):", "if not (request or changed):"),),
    ),
    Mend(
        "a rollback removes what its template confirms",
        (Edit("update.py", "surplus & (self._request.confirmed | added_groups", "surplus & (added_groups"),),
    ),
)
