"""Mark a node while a shell is open on it: no pod shows a session of Session Manager.

The sleeper keeps the node's instance group awake while the mark counts (`controllers/group_users.py`).
"""

import getpass
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import kubernetes

from config.labels import SHELL
from ops.clients import REQUEST_TIMEOUT
from ops.errors import UnreachableError, in_plain_words

EXPIRES_SECONDS: Final = 900
"""How long a mark counts without a renewal, as of a closed laptop; AWS refuses clocks that are wrong by 300 s."""

_RENEW_SECONDS: Final = 120


@contextmanager
def marked(api: kubernetes.client.ApiClient, node: str, *, renew: float = _RENEW_SECONDS) -> Iterator[str]:
    """Mark the node while the block runs; yield why that is impossible, or ""."""
    core = kubernetes.client.CoreV1Api(api)
    key = f"{SHELL}{secrets.token_hex(4)}"
    ended = threading.Event()

    def renewing() -> None:
        while not ended.wait(renew):
            # A renewal that fails is tried again: its message would disturb the session.
            _annotate(core, node, key, _mark())

    problem = _annotate(core, node, key, _mark())
    thread = threading.Thread(target=renewing, name="renew the mark", daemon=True)
    if not problem:
        thread.start()
    try:
        yield problem
    finally:
        ended.set()
        if not problem:
            thread.join()
            _annotate(core, node, key, None)


def _mark() -> str:
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + EXPIRES_SECONDS))
    try:
        return f"{until} {getpass.getuser()}"
    except (KeyError, OSError):
        # This machine has no name for its user.
        return f"{until} somebody"


def _annotate(core: kubernetes.client.CoreV1Api, node: str, key: str, value: str | None) -> str:
    """Set an annotation of the node, or remove it; return why that failed, or ""."""
    change = {"metadata": {"annotations": {key: value}}}
    merge = {"_content_type": "application/merge-patch+json"}
    try:
        with in_plain_words():
            core.patch_node(node, change, _request_timeout=REQUEST_TIMEOUT, **merge)
    except UnreachableError as error:
        return str(error)
    return ""
