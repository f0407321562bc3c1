"""Connections to the environment's AWS account and to its Kubernetes API."""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import boto3
import kubernetes
from botocore.exceptions import BotoCoreError, ClientError
from botocore.signers import RequestSigner

from config import Environment, naming

_TOKEN_SECONDS: Final = 60


class Unreachable(Exception):
    """The account or the cluster cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Clients:
    """The two APIs of one environment."""

    sagemaker: Any
    ecr: Any
    kubernetes: kubernetes.client.ApiClient


@contextmanager
def connect(environment: Environment) -> Iterator[Clients]:
    """Yield clients of the environment, with the caller's own AWS credentials.

    Raises Unreachable when there are no credentials, they belong to another account, or the EKS cluster does
    not exist or refuses the caller.
    """
    session = boto3.Session(region_name=environment.region)
    try:
        account = session.client("sts").get_caller_identity()["Account"]
        if account != environment.account:
            raise Unreachable(
                f"the credentials are of account {account}; environment {environment.name} is in {environment.account}"
            )
        cluster = session.client("eks").describe_cluster(name=naming.eks_cluster(environment))["cluster"]
    except ClientError as error:
        raise Unreachable(f"{error.operation_name}: {error.response['Error']['Message']}") from error
    except BotoCoreError as error:
        raise Unreachable(str(error)) from error

    with tempfile.NamedTemporaryFile(suffix=".crt") as authority:
        authority.write(base64.b64decode(cluster["certificateAuthority"]["data"]))
        authority.flush()
        configuration = kubernetes.client.Configuration()
        configuration.host = cluster["endpoint"]
        configuration.ssl_ca_cert = authority.name
        # Tokens live for minutes, a wait for hours: each request signs its own.
        configuration.refresh_api_key_hook = lambda settings: settings.api_key.update(
            authorization=f"Bearer {_token(session, cluster['name'])}"
        )
        configuration.api_key["authorization"] = f"Bearer {_token(session, cluster['name'])}"
        with kubernetes.client.ApiClient(configuration) as api:
            yield Clients(session.client("sagemaker"), session.client("ecr"), api)


def _token(session: boto3.Session, cluster: str) -> str:
    """Return a token for the EKS API: a presigned GetCallerIdentity bound to the cluster's name.

    Source: kubernetes-sigs/aws-iam-authenticator, "API Authorization from Outside a Cluster".
    """
    credentials = session.get_credentials()
    if credentials is None:
        raise Unreachable("there are no AWS credentials")
    sts = session.client("sts")
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        sts.meta.region_name,
        "sts",
        "v4",
        credentials,
        session.events,
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name=sts.meta.region_name,
        expires_in=_TOKEN_SECONDS,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
