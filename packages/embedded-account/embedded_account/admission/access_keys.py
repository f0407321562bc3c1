"""Whose an access key is: the run's root key, a role's session, or an IAM user's. The account accepts no other."""

from dataclasses import dataclass
from datetime import UTC

from botocore.credentials import Credentials
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from embedded_account.context import Account


class UnknownKeyError(Exception):
    """The account has not issued the key, or its session is over. `code` is AWS's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Owner:
    """Who was given a key: `arn` is the user's or the role's (not the session's)."""

    arn: str
    session_name: str
    credentials: Credentials


def owner_of(account: Account, access_key_id: str, session_token: str | None) -> Owner:
    """Return who was given this key. Raises UnknownKeyError, also for a session's key without the session's token."""
    keys = account.keys
    if access_key_id == keys.access_key_id:
        root = f"arn:aws:iam::{account.account_id}:root"
        return Owner(root, "", Credentials(keys.access_key_id, keys.secret_access_key))
    session = sts_backends[account.account_id]["aws"].get_assumed_role_from_access_key(access_key_id)
    if session:
        if session_token != session.session_token:
            raise UnknownKeyError("InvalidClientTokenId", f"the session token of {access_key_id} is wrong")
        if session.expiration.replace(tzinfo=UTC) < account.clock.now():
            raise UnknownKeyError("ExpiredToken", f"the session of {access_key_id} has expired")
        credentials = Credentials(access_key_id, session.secret_access_key, session.session_token)
        return Owner(session.role_arn, session.session_name, credentials)
    for user in iam_backends[account.account_id]["aws"].users.values():
        for key in user.access_keys:
            if key.access_key_id == access_key_id:
                return Owner(user.arn, "", Credentials(access_key_id, key.secret_access_key))
    raise UnknownKeyError("InvalidClientTokenId", f"the account has not made the access key {access_key_id}")
