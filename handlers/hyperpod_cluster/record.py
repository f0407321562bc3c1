"""Record in two tags of the cluster what each request found and what it deploys (ADR 85).

A rollback's request says neither which update it takes back nor what that update found. A late delivery looks the same.
Every request writes DEPLOYED_TAG when it registers, and a forward update also writes BEFORE_TAG:

- `hyperpod-cluster:deployed`: the request's id; the time at which CloudFormation issued it; the fingerprint of its
  properties; `update` for a forward update (`older-dropped` if BEFORE_TAG had no room for all entries), for others the
  id of an update that they do not take back. `-` stands for none.
- `hyperpod-cluster:before`: the update's id, and an entry for each template to which a rollback may return, the newest
  at the end: the fingerprint, `+` if the update has something to change, and the counts above that template's.

A third tag, `hyperpod-cluster:sleeping`, is for the function GroupCounts: the fingerprint of the groups that sleep,
with their ranges. The function changes nothing unless its own ranges agree. CloudFormation deletes it only after the
update that ends the last group's sleep, and until then it could put the group to sleep for ever.

A tag holds 256 characters, and a group's name up to 63: an entry names groups by short hashes. If two groups share one,
the higher count stands for both, so a rollback keeps more. The oldest entries are dropped.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .request import CustomResourceRequest

BEFORE_TAG = "hyperpod-cluster:before"
DEPLOYED_TAG = "hyperpod-cluster:deployed"
SLEEPING_TAG = "hyperpod-cluster:sleeping"

# AddTags, Tag.Value.
_LONGEST_VALUE = 256
_NONE = "-"
_UPDATE, _OLDER_DROPPED = "update", "older-dropped"
# People can change tags: what does not look like ours says nothing.
_DEPLOYED = re.compile(r"\S+ \S+ [0-9a-f]{8} \S+")
_BEFORE = re.compile(r"\S+( [0-9a-f]{8}\+?(:[0-9a-f]{4}=\d+)*)+")

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Entry:
    """What an update found before it changed anything.

    `template` is the fingerprint of its old properties, `changes` says whether it had anything to change, and `raised`
    holds the counts above the template's, by hashes of the groups' names.
    """

    template: str
    changes: bool
    raised: Counts

    @classmethod
    def of(cls, template: str, changes: bool, raised: Counts) -> Self:
        """Return the entry for counts by the groups' names."""
        short: dict[str, int] = {}
        for name, count in raised.items():
            short[fingerprint(name)[:4]] = max(count, short.get(fingerprint(name)[:4], 0))
        return cls(template, changes, short)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the entry that `text` encodes."""
        template, *raised = text.split(":")
        counts = (each.partition("=") for each in raised)
        return cls(template.rstrip("+"), template.endswith("+"), {name: int(count) for name, _, count in counts})

    def count(self, group: str) -> int:
        """Return the recorded count of a group; 0 if nobody had raised it."""
        return self.raised.get(fingerprint(group)[:4], 0)

    def __str__(self) -> str:
        """Return the entry as text of a tag."""
        counts = [f"{name}={count}" for name, count in sorted(self.raised.items())]
        return ":".join([self.template + "+" * self.changes, *counts])


@dataclass(frozen=True)
class Record:
    """What the tags of a cluster say; empty where they say nothing."""

    deployed_by: str = ""
    issued: str = _NONE
    deployed: str = ""
    ignored: str = _NONE
    updated_by: str = ""
    entries: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, tags: Mapping[str, str], newest: str = "") -> Self:
        """Return the record in a cluster's tags.

        It says nothing about what is deployed if `newest`, the newest registered request, did not write it: that
        request was refused, or an older version of this code handled it.
        """
        by, issued, template, ignored = _words(_DEPLOYED, tags.get(DEPLOYED_TAG, "")) or ["", _NONE, "", _NONE]
        updated_by, *entries = _words(_BEFORE, tags.get(BEFORE_TAG, "")) or [""]
        if newest not in ("", by):
            by, template, ignored = "", "", _NONE
        return cls(by, issued, template, ignored, updated_by, tuple(map(Entry.read, entries)))

    def found(self, request: CustomResourceRequest) -> Entry | None:
        """Return what was found when the stack left the template to which this request goes back; None if unknown."""
        template = fingerprint(request.properties)
        positions = [at for at, entry in enumerate(self.entries) if entry.template == template]
        if not positions or self.updated_by == self.ignored:
            return None
        since = self.entries[positions[-1] :]
        names = {name for entry in since for name in entry.raised}
        raised = {name: max(entry.raised.get(name, 0) for entry in since) for name in names}
        return Entry(template, any(entry.changes for entry in since), raised)

    def is_later_than(self, request: CustomResourceRequest) -> bool:
        """Return whether CloudFormation issued the recorded request after this one."""
        return "" < request.issued < self.issued

    def can_go_back(self, request: CustomResourceRequest) -> bool:
        """Return whether a rollback can lead to the request's properties; otherwise this is a late forward update."""
        if fingerprint(request.properties) == self.deployed or not self.deployed:
            return True
        # A rollback goes back to a template with an entry, unless that was dropped or BEFORE_TAG is lost.
        known = self.ignored != _OLDER_DROPPED and (self._newest_is_an_update or self.ignored != _UPDATE)
        return not known or (self._newest_is_an_update and self.found(request) is not None)

    def after_creation(self, request: CustomResourceRequest) -> dict[str, str]:
        """Return the tag of a creation; it takes back nothing."""
        return _deployed(request, self.updated_by or _NONE)

    def after_update(
        self, request: CustomResourceRequest, live: Counts, old: Counts, *, changes: bool
    ) -> dict[str, str]:
        """Return the tags of a forward update that finds these live counts, by group; its old template has others."""
        raised = {name: count for name, count in live.items() if count > old.get(name, 0)}
        own = Entry.of(fingerprint(request.old_properties), changes, raised)
        entries = [*self.entries] if self._newest_is_an_update else []
        if self.deployed not in ("", own.template):
            # The update between the two never arrived, or ListTags does not show it yet.
            entries.append(Entry.of(self.deployed, True, live))
        entries.append(own)
        kind = self.ignored if self._newest_is_an_update else _UPDATE
        while len(before := " ".join([request.id, *map(str, entries)])) > _LONGEST_VALUE and len(entries) > 1:
            del entries[0]
            kind = _OLDER_DROPPED
        return _deployed(request, kind) | {BEFORE_TAG: before}

    def after_rollback(self, request: CustomResourceRequest) -> dict[str, str]:
        """Return the tag of a rollback.

        If the deployed properties are those to which it goes back, the update that it takes back never arrived: what
        earlier updates found does not count.
        """
        old, new = fingerprint(request.old_properties), fingerprint(request.properties)
        if self._newest_is_an_update and not new == self.deployed != old:
            return _deployed(request, _NONE)
        # A rollback that is continued keeps what the first one found.
        continued = self.deployed and self.updated_by and not self._newest_is_an_update
        return _deployed(request, self.ignored if continued else self.updated_by or _NONE)

    @property
    def _newest_is_an_update(self) -> bool:
        return self.ignored in (_UPDATE, _OLDER_DROPPED) and self.deployed_by == self.updated_by


def sleeping_tag(minima: Counts, counts: Counts, tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tag of the groups that sleep in a template; nothing if none does, and none did by these tags."""
    ranges = {name: [least, counts[name]] for name, least in minima.items() if name in counts}
    return {SLEEPING_TAG: fingerprint(ranges)} if ranges or SLEEPING_TAG in tags else {}


def fingerprint(value: Any) -> str:
    """Return a short hash of a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _words(form: re.Pattern[str], text: str) -> list[str]:
    return text.split() if form.fullmatch(text) else []


def _deployed(request: CustomResourceRequest, ignored: str) -> dict[str, str]:
    return {DEPLOYED_TAG: " ".join([request.id, request.issued or _NONE, fingerprint(request.properties), ignored])}
