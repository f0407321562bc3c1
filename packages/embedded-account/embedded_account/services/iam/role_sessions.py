"""Get credentials of roles from the account's own STS, so that calls of functions have their role's identity."""

import threading
from datetime import timedelta
from typing import Any

from moto.sts.models import sts_backends

from embedded_account.context import Account

_LIFETIME = timedelta(hours=1)
_RENEWED_BEFORE_EXPIRY = timedelta(minutes=20)
"""The remaining lifetime at which a session is renewed.

A function can run for 15 minutes with the credentials that it started with.
"""


class RoleSessions:
    """The role sessions, one per role and session name, renewed before they expire.

    An execution environment keeps the session that it started with. A renewed session needs a new environment, so that
    the clients that a module holds never sign with expired keys.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], tuple[Any, Any]] = {}

    def environment(self, role_arn: str, session_name: str) -> dict[str, str]:
        """Return the AWS_* environment variables of the role's session with the name `session_name`."""
        now = self._account.clock.now()
        with self._lock:
            session, renewal = self._sessions.get((role_arn, session_name), (None, now))
            # STS loses its sessions when moto is reset, for example between tests.
            if session not in self._sts.assumed_roles or now >= renewal:
                session = self._assume(role_arn, session_name)
                renewal = now + _LIFETIME - _RENEWED_BEFORE_EXPIRY
                self._sessions[role_arn, session_name] = session, renewal
        return {
            "AWS_ACCESS_KEY_ID": session.access_key_id,
            "AWS_SECRET_ACCESS_KEY": session.secret_access_key,
            "AWS_SESSION_TOKEN": session.session_token,
        }

    @property
    def _sts(self) -> Any:
        return sts_backends[self._account.account_id]["aws"]

    def _assume(self, role_arn: str, session_name: str) -> Any:
        return self._sts.assume_role(
            region_name=self._account.region,
            role_session_name=session_name[:64],
            role_arn=role_arn,
            policy=None,
            duration=int(_LIFETIME.total_seconds()),
            external_id=None,
        )
