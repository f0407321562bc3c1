"""Check that CloudFormation still waits for a request: a superseded request changes nothing.

A function is not informed when CloudFormation stops waiting for it: a user cancelled the update, another resource
failed, or Lambda delivers a request again that was answered long ago. Two facts show it: the stack's status, and the
ids of the last requests. Each request writes its id to a tag of the cluster before it changes anything else (ADR 32).
"""

from collections.abc import Mapping
from typing import Any

from .errors import RefusedRequestError
from .request import Request
from .service import RETRY_SECONDS, HyperPod

REQUESTS_TAG = "hyperpod-cluster:requests"

# A tag's 256 characters hold six ids of 36 characters. Lambda repeats a delivery within hours.
_REMEMBERED = 6
_FORWARD = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"})
_BACK = frozenset({"ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"})


class SupersededError(RefusedRequestError):
    """CloudFormation no longer waits for this request."""


class Precedence:
    """A check before every changing call of one invocation, retries included.

    A request keeps its direction: a request that went forward never has a rollback's permissions, even if its stack
    is rolled back meanwhile.
    """

    def __init__(self, request: Request, hyperpod: HyperPod) -> None:
        self._request = request
        self._hyperpod = hyperpod
        # A rollback creates nothing.
        self._goes_back = False if request.type == "Create" else request.goes_back
        self._arn = ""
        self._newest_before = request.newest_before
        self._verified_at = float("-inf")
        hyperpod.before_change = self._verify

    @property
    def answer(self) -> dict[str, Any]:
        """Return what `is_complete` must know of this request; `on_event` adds it to its answer."""
        return {"GoesBack": self._goes_back, "NewestBefore": self._newest_before}

    def goes_back(self) -> bool:
        """Return whether the request rolls its stack back. Raises SupersededError if no operation is in progress."""
        if self._goes_back is None:
            self._goes_back = self._direction()
        return self._goes_back

    def register(self, arn: str, tags: Mapping[str, str], more: Mapping[str, str]) -> None:
        """Make the request the newest one of the cluster with these tags; on its first delivery, also add `more` tags.

        Raises SupersededError if a newer request was registered after it.
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

    def _verify(self) -> None:
        """Raise SupersededError unless the request is still current; skip the check for RETRY_SECONDS after one."""
        if self._hyperpod.now() - self._verified_at < RETRY_SECONDS:
            return
        if self._direction() is not self.goes_back():
            raise self.superseded("its stack is rolled back")
        newest = _requests(self._hyperpod.tags(self._arn) or {})[-1:] if self._arn else []
        # Tags that lag behind show the request that was the newest before this one.
        if not set(newest) <= {self._request.id, self._newest_before}:
            raise self.superseded(f"request {newest[0]} came after it")
        self._verified_at = self._hyperpod.now()

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


def created_by(request: Request, tags: Mapping[str, str]) -> bool:
    """Return whether this request created the cluster with these tags, and no other was registered since."""
    return _requests(tags) == [request.id]


def _requests(tags: Mapping[str, str]) -> list[str]:
    return tags.get(REQUESTS_TAG, "").split()
