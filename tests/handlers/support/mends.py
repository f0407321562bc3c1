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
    Edit("precedence.py", "if self._request.id in known[:-1] or record.is_later_than(self._request):", "if False:"),
)
_OPERATION = (
    Edit("precedence.py", "if self._direction() is not self.goes_back():", "if False:"),
    Edit("precedence.py", "if status not in _FORWARD | _BACK:", "if False:"),
)
_LEFT = "return bool(live) and _holds(_as_text(before), _as_text(live))"
_ADDED = "added = (noted.keys() & present) | (wanted.keys() - present)"
_UNSETTLED = "unsettled = not change.in_service or self._precedence.goes_back()"

MENDS: Final = (
    Mend("a request writes nothing after a newer one", _NEWEST),
    Mend("a request writes nothing when its operation is over", _OPERATION),
    Mend("a superseded request writes nothing", _NEWEST + _OPERATION),
    Mend(
        "an update that is delivered again is no rollback",
        (Edit("precedence.py", "if goes_back and record.updated_by == self._request.id:", "if False:"),),
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
            Edit("teardown.py", "if status not in STACK_GOES:\n            _log", "if False:\n            _log"),
            Edit("teardown.py", "if status not in STACK_GOES:\n            return", "if False:\n            return"),
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
        "the guard waits until a new cluster is listed",
        (Edit("teardown.py", 'if status == "ROLLBACK_IN_PROGRESS" and age < RECHECK_SECONDS:', "if False:"),),
    ),
    Mend(
        "a Delete waits until a new cluster is visible",
        (
            Edit(
                "cluster.py",
                "if state is None and not self._request.updated_arn and age < CONSISTENCY_SECONDS:",
                "if False:",
            ),
        ),
    ),
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
        (Edit("update.py", _ADDED, "added = wanted.keys() - present"),),
    ),
    Mend(
        "what is to go with consent is noted until it is gone",
        (
            Edit(
                "update.py",
                _ADDED,
                "added = {each for each in noted.keys() & present if each in wanted or each not in "
                "self._request.confirmed} | (wanted.keys() - present)",
            ),
        ),
    ),
    Mend(
        "a group that is being deleted is not there",
        (Edit("update.py", "live_groups(self._cluster)", "group_names(self._cluster)"),),
    ),
    Mend(
        "the note of added groups goes with the rollback",
        (Edit("cluster.py", "            change.forget()\n", ""),),
    ),
    Mend(
        "a cluster that just went has no tags",
        (Edit("service.py", 'in {"ResourceNotFound", "ValidationException"} and', 'in {"ResourceNotFound"} and'),),
    ),
    Mend(
        "a count that was raised by hand is not lowered",
        (Edit("changes.py", "known = wanted.keys() & found.keys() if deployed else set()", "known = set()"),),
    ),
    Mend(
        "an update is done when the removed groups are gone",
        (Edit("changes.py", "if not (request or removed or changed):", "if not (request or changed):"),),
    ),
    Mend(
        "a rollback does not go below what its update found",
        (Edit("update.py", "min(more[name], found.count(name))", "0"),),
    ),
    Mend(
        "a rollback goes back to what its update found",
        (Edit("update.py", "min(more[name], found.count(name))", "more[name]"),),
    ),
    Mend(
        "an update that arrives with its rollback is superseded",
        (Edit("precedence.py", "not (record.can_go_back(self._request) and self._is_back()):", "False:"),),
    ),
    Mend(
        "an update back to the template before is no rollback of the last one",
        (Edit("precedence.py", " and self._is_back()):", "):"),),
    ),
    Mend(
        "an update that arrives with the next one is superseded",
        (Edit("precedence.py", " or record.is_later_than(self._request):", ":"),),
    ),
    Mend(
        "a rollback keeps a count that its update did not give",
        (Edit("update.py", "if count == deployed.get(name)}", "}"),),
    ),
    Mend(
        "a rollback of a refused update keeps a count that was raised since",
        (Edit("update.py", "if found and found.changes:", "if found:"),),
    ),
    Mend(
        "a rollback keeps an added group that has grown",
        (Edit("update.py", "if live.get(name, 0) <= added[name]", "if name"),),
    ),
    Mend(
        "an update between two others that never arrived is recorded",
        (Edit("record.py", 'if self.deployed not in ("", own.template):', "if False:"),),
    ),
    Mend(
        "a confirmation counts once",
        (Edit("update.py", "unconfirmed, advice = surplus & spent, _SPENT", "unconfirmed = set()"),),
    ),
    Mend(
        "a rollback takes no confirmation of its template",
        (Edit("update.py", "            return removable\n", "            return surplus\n"),),
    ),
    Mend(
        "a deletion that is delivered again leaves the successor alone",
        (
            Edit("precedence.py", "if status not in _CLEANUP:", "if False:"),
            Edit("precedence.py", "if Record.read(tags).is_later_than(self._request):", "if False:"),
        ),
    ),
    Mend(
        "a creation that takes longer is left alone",
        (Edit("cluster.py", "if self._takes_longer(cluster):", "if False:"),),
    ),
    Mend(
        "Karpenter decides about counts",
        (Edit("update.py", "if autoscaled(desired, self._cluster, previous):", "if False:"),),
    ),
)
