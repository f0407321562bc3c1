"""Find the owner of an access key.

The account accepts three kinds of keys: the run's root key, the key of a role's session, and the key of an IAM user.
"""

from dataclasses import dataclass
from datetime import UTC

from botocore.credentials import Credentials
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from embedded_account.context import Account


class UnknownKeyError(Exception):
    """The account did not issue the key, or its session has expired. `code` is AWS's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class AccessKeyOwner:
    """The owner of an access key. `arn` is the ARN of the user, or of the role (not of the role's session)."""

    arn: str
    session_name: str
    credentials: Credentials


def owner_of(account: Account, access_key_id: str, session_token: str | None) -> AccessKeyOwner:
    """Return the owner of an access key.

    Raises UnknownKeyError for an unknown key, an expired session, or a session key without its session token.
    """
    keys = account.keys
    if access_key_id == keys.access_key_id:
        root = f"arn:aws:iam::{account.account_id}:root"
        return AccessKeyOwner(root, "", Credentials(keys.access_key_id, keys.secret_access_key))
    session = sts_backends[account.account_id]["aws"].get_assumed_role_from_access_key(access_key_id)
    if session:
        if session_token != session.session_token:
            raise UnknownKeyError("InvalidClientTokenId", f"the session token of {access_key_id} is wrong")
        if session.expiration.replace(tzinfo=UTC) < account.clock.now():
            raise UnknownKeyError("ExpiredToken", f"the session of {access_key_id} has expired")
        credentials = Credentials(access_key_id, session.secret_access_key, session.session_token)
        return AccessKeyOwner(session.role_arn, session.session_name, credentials)
    for user in iam_backends[account.account_id]["aws"].users.values():
        for key in user.access_keys:
            if key.access_key_id == access_key_id:
                return AccessKeyOwner(user.arn, "", Credentials(access_key_id, key.secret_access_key))
    raise UnknownKeyError("InvalidClientTokenId", f"the account did not issue the access key {access_key_id}")
