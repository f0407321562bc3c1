"""Whether CloudFormation still waits for a request: one that was superseded changes nothing.

No function is told that CloudFormation stopped waiting for it: a user cancelled the update, another resource failed, or
Lambda delivers a request again that was answered long ago. Two facts tell: the stack's status, and the ids of the last
requests, which each request writes to a tag of the cluster before it changes anything else (ADR 32).
"""

from collections.abc import Mapping
from typing import Any

from .errors import RefusedRequestError
from .request import Request
from .service import RETRY_SECONDS, HyperPod

REQUESTS_TAG = "hyperpod-cluster:requests"

# Ids of 36 characters in a tag of 256. Lambda repeats a delivery within hours.
_REMEMBERED = 6
_FORWARD = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"})
_BACK = frozenset({"ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"})


class SupersededError(RefusedRequestError):
    """CloudFormation no longer waits for this request."""


class Precedence:
    """Guards every call of one invocation that changes something: `verify` runs before it, and before each retry.

    A request keeps its direction: one that went forward never takes the liberties of a rollback, whatever its stack
    does by now.
    """

    def __init__(self, request: Request, hyperpod: HyperPod) -> None:
        self._request = request
        self._hyperpod = hyperpod
        # Nothing is created on the way back.
        self._goes_back = False if request.type == "Create" else request.goes_back
        self._arn = ""
        self._newest_before = request.newest_before
        self._verified_at = float("-inf")

    @property
    def answer(self) -> dict[str, Any]:
        """What `is_complete` must know of this request: `on_event` adds it to its answer."""
        return {"GoesBack": self._goes_back, "NewestBefore": self._newest_before}

    def goes_back(self) -> bool:
        """Return whether the request takes its stack back; raises SupersededError when no operation runs."""
        if self._goes_back is None:
            self._goes_back = self._direction()
        return self._goes_back

    def register(self, arn: str, tags: Mapping[str, str], more: Mapping[str, str]) -> None:
        """Make the request the newest one of the cluster with these tags; on its first delivery, add `more` tags.

        Raises SupersededError when a newer one was registered after it.
        """
        self.goes_back()
        known = _requests(tags)
        if self._request.id in known[:-1]:
            raise self.superseded(f"request {known[-1]} came after it")
        self._arn = arn
        self._newest_before = known[-1] if known else ""
        self._verified_at = self._hyperpod.now()
        if self._request.id not in known:
            self._hyperpod.add_tags(arn, requests_tag(*known, self._request.id) | dict(more))

    def follow(self, arn: str) -> None:
        """Watch the cluster on which `on_event` registered the request."""
        self._arn = arn

    def verify(self) -> None:
        """Raise SupersededError unless the request still counts; what was found a moment ago is not asked again."""
        if self._hyperpod.now() - self._verified_at < RETRY_SECONDS:
            return
        if self._direction() is not self.goes_back():
            raise self.superseded("its stack is rolled back")
        newest = _requests(self._hyperpod.tags(self._arn) or {})[-1:] if self._arn else []
        # Tags that lag show what was the newest before this request.
        if not set(newest) <= {self._request.id, self._newest_before}:
            raise self.superseded(f"request {newest[0]} came after it")
        self._verified_at = self._hyperpod.now()

    def _direction(self) -> bool:
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status not in _FORWARD | _BACK:
            raise self.superseded(f"its stack is {status}")
        return status in _BACK

    def superseded(self, because: str) -> SupersededError:
        """The refusal of a request for which CloudFormation no longer waits."""
        name = self._request.physical_id or self._request.properties.get("ClusterName", "")
        return SupersededError(
            f"{self._request.type} of HyperPod cluster {name} was superseded: {because}. Nothing is changed"
        )


def requests_tag(*ids: str) -> dict[str, str]:
    """Return the tag that remembers these requests, the newest last."""
    return {REQUESTS_TAG: " ".join(ids[-_REMEMBERED:])}


def created_by(request: Request, tags: Mapping[str, str]) -> bool:
    """Whether this request created the cluster with these tags, and no other was registered since."""
    return _requests(tags) == [request.id]


def _requests(tags: Mapping[str, str]) -> list[str]:
    return tags.get(REQUESTS_TAG, "").split()
