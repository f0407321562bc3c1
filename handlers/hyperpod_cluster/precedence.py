"""Find out whether CloudFormation still waits for a request: a superseded request changes nothing.

CloudFormation does not notify a function when it stops waiting: a user cancelled the update, another resource failed,
or Lambda delivers an old request again, or late for the first time. Three facts show it: the stack's status, and when a
rollback began; the ids of the last requests; and the record of the newest one: when it was issued, and what it
deployed. Each request writes them into tags of the cluster before it changes anything else (ADR 32, ADR 85).
"""

from collections.abc import Mapping
from typing import Any

from .errors import RefusedRequestError
from .record import Record
from .request import CustomResourceRequest
from .service import RETRY_SECONDS, HyperPodClient

REQUESTS_TAG = "hyperpod-cluster:requests"

# A tag holds 256 characters, an id has 36. Lambda repeats a delivery within hours.
_REMEMBERED = 6
_FORWARD = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"})
_BACK = frozenset({"ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"})
# An update begins by deleting what failed creations left behind.
_CLEANUP = frozenset(
    {
        *("UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"),
        *("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"),
    }
)
STACK_GOES = frozenset({"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"})
"""Operations that delete all of a stack."""


class SupersededError(RefusedRequestError):
    """CloudFormation no longer waits for this request."""


class Precedence:
    """Guards every call of one invocation that changes something: `verify` runs before it, and before each retry.

    A request keeps its direction. A request that began as a forward update never acts as a rollback, even if its stack
    is rolled back by now.
    """

    def __init__(self, request: CustomResourceRequest, hyperpod: HyperPodClient) -> None:
        self._request = request
        self._hyperpod = hyperpod
        # A rollback sends no Create.
        self._goes_back = False if request.type == "Create" else request.goes_back
        self._arn = ""
        self._newest_before = request.newest_before
        self._verified_at = float("-inf")

    @property
    def answer(self) -> dict[str, Any]:
        """Return what `is_complete` must know of this request; `on_event` adds it to its answer."""
        return {"GoesBack": self._goes_back, "NewestBefore": self._newest_before}

    def goes_back(self) -> bool:
        """Return whether the request is part of a rollback; raise SupersededError when no operation runs."""
        if self._goes_back is None:
            self._goes_back = self._direction()
        return self._goes_back

    def record(self, tags: Mapping[str, str]) -> Record:
        """Return what the tags, as just read, record; raise SupersededError if they show that the request is late."""
        goes_back, known = self.goes_back(), _requests(tags)
        record = Record.read(tags, *known[-1:])
        if self._request.id in known[:-1] or record.is_later_than(self._request):
            raise self.superseded(f"request {known[-1]} came after it")
        if goes_back and record.updated_by == self._request.id:
            # This is a repeated delivery of a forward update: only forward updates write this part of the record, and
            # the rollback that will read it has not begun yet.
            raise self.superseded("its stack is rolled back")
        if goes_back and self._request.id not in known and not (record.can_go_back(self._request) and self._is_back()):
            raise self.superseded("it was cancelled before it arrived")
        return record

    def _is_back(self) -> bool:
        """Return whether the request was issued after its stack's rollback had begun, as far as that is known."""
        issued = self._request.issued
        return not issued or issued >= self._hyperpod.began(self._request.stack_id, _BACK)

    def register(self, arn: str, tags: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        """Register the request as the newest one of the cluster; return the tags that are written.

        Args:
            arn: The cluster.
            tags: The cluster's tags, as just read.
            more: Tags to write in the same call, on the request's first delivery only.
        """
        known = _requests(tags)
        self._arn = arn
        self._newest_before = known[-1] if known else ""
        self._verified_at = self._hyperpod.now()
        if self._request.id in known:
            return {}
        written = requests_tag(*known, self._request.id) | dict(more)
        self._hyperpod.add_tags(arn, written)
        return written

    def follow(self, arn: str) -> None:
        """Verify against the cluster on which `on_event` registered the request."""
        self._arn = arn

    def verify(self, tags: Mapping[str, str] | None = None) -> None:
        """Raise SupersededError if the request was superseded; do not ask again within RETRY_SECONDS.

        `tags` are the cluster's tags if they were read just before this call; otherwise this method reads them.
        """
        if self._hyperpod.now() - self._verified_at < RETRY_SECONDS:
            return
        if self._direction() is not self.goes_back():
            raise self.superseded("its stack is rolled back")
        if tags is None:
            tags = (self._hyperpod.tags(self._arn) if self._arn else None) or {}
        newest = _requests(tags)[-1:]
        # While ListTags lags, it shows the request that was the newest before this one.
        if not set(newest) <= {self._request.id, self._newest_before}:
            raise self.superseded(f"request {newest[0]} came after it")
        self._verified_at = self._hyperpod.now()

    def verify_deletion(self, tags: Mapping[str, str]) -> None:
        """Raise SupersededError if a Delete is not about the cluster with these tags, as just read.

        The cluster can be the successor of the one that an earlier delivery of the Delete deleted.
        """
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status in STACK_GOES:
            return
        if status not in _CLEANUP:
            raise self.superseded(f"its stack is {status}")
        if Record.read(tags).is_later_than(self._request):
            raise self.superseded(f"request {_requests(tags)[-1]} came after it")

    def _direction(self) -> bool:
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status not in _FORWARD | _BACK:
            raise self.superseded(f"its stack is {status}")
        return status in _BACK

    def superseded(self, because: str) -> SupersededError:
        """Return the error for a request for which CloudFormation no longer waits."""
        name = self._request.physical_id or self._request.properties.get("ClusterName", "")
        return SupersededError(
            f"{self._request.type} of HyperPod cluster {name} was superseded: {because}. Nothing is changed"
        )


def requests_tag(*ids: str) -> dict[str, str]:
    """Return the tag with the last of these ids of requests, the newest at the end."""
    return {REQUESTS_TAG: " ".join(ids[-_REMEMBERED:])}


def created_by(request: CustomResourceRequest, tags: Mapping[str, str]) -> bool:
    """Return whether this request created the cluster with these tags, and no other was registered since."""
    return _requests(tags) == [request.id]


def _requests(tags: Mapping[str, str]) -> list[str]:
    return tags.get(REQUESTS_TAG, "").split()
