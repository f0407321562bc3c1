"""List what a person's call needs of KMS: S3 and SNS use the key of what is encrypted with the caller's rights."""

from collections.abc import Iterator
from typing import Final

from moto.sns.models import sns_backends

from embedded_account.context import Account
from embedded_account.permissions.calls import AwsCall
from embedded_account.services.iam.policies import Context
from embedded_account.services.keys import context_of
from embedded_account.services.s3.keys import default_key, key_context, key_of_object

_OF_PARTS: Final = ("kms:Decrypt", "kms:GenerateDataKey")
_ACTIONS: Final = {
    "GetObject": ("kms:Decrypt",),
    "PutObject": ("kms:GenerateDataKey",),
    **dict.fromkeys(("CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart"), _OF_PARTS),
}
"""KMS's actions by S3's operation (S3 user guide, "Protecting data with server-side encryption with AWS KMS keys")."""


def needs(account: Account, call: AwsCall) -> Iterator[tuple[str, str, Context]]:
    """Yield action, key and condition keys; nothing if no customer managed key encrypts the object or topic."""
    if (call.service, call.operation) == ("sns", "Publish"):
        yield from _of_topic(account, call.parameters["TopicArn"])
    if call.service != "s3" or call.operation not in _ACTIONS:
        return
    where, name = (account.account_id, account.region), (call.parameters["Bucket"], call.parameters["Key"])
    key = key_of_object(*where, *name) if call.operation == "GetObject" else default_key(*where, name[0])
    for action in _ACTIONS[call.operation] if key else ():
        yield action, key, key_context(*where, *name, action)


def _of_topic(account: Account, topic: str) -> Iterator[tuple[str, str, Context]]:
    """Yield what publishing needs (SNS developer guide, "Allow a user to send messages to a topic with SSE")."""
    known = sns_backends[account.account_id][account.region].topics.get(topic)
    key = str(known.kms_master_key_id or "") if known else ""
    for action in _OF_PARTS if key else ():
        context = context_of(account.account_id, account.region, action, "sns")
        yield action, key, context | {"kms:EncryptionContext:aws:sns:topicArn": topic}
