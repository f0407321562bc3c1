"""List what a person's call of S3 needs of KMS: S3 uses the key of an encrypted object with the caller's rights."""

from collections.abc import Iterator
from typing import Final

from embedded_account.context import Account
from embedded_account.permissions.calls import Call
from embedded_account.services.iam.policies import Context
from embedded_account.services.s3_keys import default_key, key_context, key_of_object

_OF_PARTS: Final = ("kms:Decrypt", "kms:GenerateDataKey")
_ACTIONS: Final = {
    "GetObject": ("kms:Decrypt",),
    "PutObject": ("kms:GenerateDataKey",),
    **dict.fromkeys(("CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart"), _OF_PARTS),
}
"""KMS's actions by S3's operation (S3 user guide, "Protecting data with server-side encryption with AWS KMS keys")."""


def needs(account: Account, call: Call) -> Iterator[tuple[str, str, Context]]:
    """Yield action, key and condition keys; nothing if no customer managed key encrypts the object."""
    if call.service != "s3" or call.operation not in _ACTIONS:
        return
    where, name = (account.account_id, account.region), (call.parameters["Bucket"], call.parameters["Key"])
    key = key_of_object(*where, *name) if call.operation == "GetObject" else default_key(*where, name[0])
    for action in _ACTIONS[call.operation] if key else ():
        yield action, key, key_context(*where, *name, action)
