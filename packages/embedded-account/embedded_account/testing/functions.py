"""Create roles and functions for tests through their CloudFormation models."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from moto.s3.models import s3_backends

from embedded_account.context import Account
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.updates import trust

CODE_BUCKET = "assets"
LOGS_POLICY = "service-role/AWSLambdaBasicExecutionRole"


def zipped(files: Mapping[str, str], *, executable: Sequence[str] = ()) -> bytes:
    """Return a zip of text files; those named in `executable` have the executable mode."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


def upload(account: Account, key: str, content: bytes) -> dict[str, str]:
    """Put an object into the code bucket; return the Code or Content property that refers to it."""
    s3 = s3_backends[account.account_id]["aws"]
    if CODE_BUCKET not in s3.buckets:
        s3.create_bucket(CODE_BUCKET, account.region)
    s3.put_object(CODE_BUCKET, key, content)
    return {"S3Bucket": CODE_BUCKET, "S3Key": key}


def make_role(account: Account, name: str, service: str, *managed: str, **properties: Any) -> Any:
    """Create a role that `service` may assume, with these AWS managed policies; return its model."""
    arns = [f"arn:aws:iam::aws:policy/{policy}" for policy in managed]
    return ResourceModels(account).create(
        "AWS::IAM::Role",
        {
            "RoleName": name,
            "AssumeRolePolicyDocument": trust(service),
            "ManagedPolicyArns": arns,
            **properties,
        },
    )


def make_function(
    account: Account,
    files: Mapping[str, str],
    *,
    name: str = "work",
    runtime: str = "python3.13",
    policies: Sequence[str] = (LOGS_POLICY,),
    **properties: Any,
) -> Any:
    """Create a function from these files, with handler `main.handler` and a role with AWS's `policies`; return it."""
    role = make_role(account, f"{name}-role", "lambda.amazonaws.com", *policies)
    return ResourceModels(account).create(
        "AWS::Lambda::Function",
        {
            "FunctionName": name,
            "Code": upload(account, f"{name}.zip", zipped(files)),
            "Handler": "main.handler",
            "Runtime": runtime,
            "Role": role.attributes()["Arn"],
            **properties,
        },
    )


def invoke(account: Account, function: Any, event: Any = None) -> tuple[Any, bool, str]:
    """Invoke a function; return its payload, whether the payload is an error, and its log."""
    result = account.functions.invoke(function.attributes()["Arn"], event or {})
    return json.loads(result.payload), result.error, result.logs
