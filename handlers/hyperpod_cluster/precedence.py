"""Find out whether CloudFormation still waits for a request: a superseded request changes nothing.

CloudFormation does not notify a function when it stops waiting: a user cancelled the update, another resource failed,
or Lambda delivers an old request again. Two facts show it: the stack's status, and the ids of the last requests. Each
request adds its id to a tag of the cluster before it changes anything else (ADR 32).
"""

from collections.abc import Mapping
from typing import Any

from .errors import RefusedRequestError
from .request import Request
from .service import RETRY_SECONDS, HyperPod

REQUESTS_TAG = "hyperpod-cluster:requests"

# A tag holds 256 characters, an id has 36. Lambda repeats a delivery within hours.
_REMEMBERED = 6
_FORWARD = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"})
_BACK = frozenset({"ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"})


class SupersededError(RefusedRequestError):
    """CloudFormation no longer waits for this request."""


class Precedence:
    """Guards every call of one invocation that changes something: `verify` runs before it, and before each retry.

    A request keeps its direction. A request that began as a forward update never acts as a rollback, even if its stack
    is rolled back by now.
    """

    def __init__(self, request: Request, hyperpod: HyperPod) -> None:
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

    def register(self, arn: str, tags: Mapping[str, str], more: Mapping[str, str]) -> None:
        """Register the request as the newest one of the cluster.

        Args:
            arn: The cluster.
            tags: The cluster's tags, as just read.
            more: Tags to write in the same call, on the request's first delivery only.

        Raises:
            SupersededError: A newer request was registered after this one.
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
