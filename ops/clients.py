"""Connections to the environment's AWS account and to its Kubernetes API."""

import base64
import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import boto3
import kubernetes
from botocore.config import Config
from botocore.signers import RequestSigner

from config import EksEnvironment, Environment, naming
from ops.errors import NoAnswerError, UnreachableError, in_plain_words

# Seconds to connect and to read: an address outside the endpoint's allow-list gets no answer at all.
REQUEST_TIMEOUT: Final = (10, 30)
_AWS: Final = Config(
    connect_timeout=REQUEST_TIMEOUT[0],
    read_timeout=REQUEST_TIMEOUT[1],
    retries={"mode": "standard", "total_max_attempts": 3},
)
_TOKEN_SECONDS: Final = 60
_KEPT_REHEARSALS: Final = Path(__file__).resolve().parents[1] / ".rehearsal" / "runs"
"""As `rehearsal.paths` has it. A shell without the variables of `look.sh` asks AWS instead of the rehearsal."""
_ONLY_METADATA: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


class CallerAccount:
    """The environment's AWS account, used with the caller's own credentials."""

    def __init__(self, environment: Environment) -> None:
        """Raise UnreachableError if there are no credentials or they belong to another account."""
        try:
            self._open(environment)
        except NoAnswerError:
            raise
        except UnreachableError as error:
            file = _KEPT_REHEARSALS / environment.name / "look.sh"
            if not file.is_file():
                raise
            raise UnreachableError(
                f"{error}. For the kept rehearsal of {environment.name}: `source {shlex.quote(str(file))}`"
            ) from error

    def _open(self, environment: Environment) -> None:
        with in_plain_words():
            self.session = boto3.Session(region_name=environment.region)
            self.sts = self.client("sts")
            identity = self.sts.get_caller_identity()
        if identity["Account"] != environment.account:
            raise UnreachableError(
                f"the AWS credentials belong to account {identity['Account']} ({identity['Arn']}), but environment "
                f"{environment.name} is in {environment.account}. Fix: log in to that account, or set AWS_PROFILE"
            )

    def client(self, service: str, region: str | None = None) -> Any:
        """Return a boto3 client that gives up in seconds, not in minutes; None is the environment's region."""
        # boto3's typed overloads accept literal service names only.
        untyped: Any = self.session
        return untyped.client(service, region_name=region, config=_AWS)


@dataclass(frozen=True)
class Clients:
    """The APIs of one environment; those of AWS are created on first use, which takes a tenth of a second for all."""

    account: CallerAccount
    kubernetes: kubernetes.client.ApiClient

    @cached_property
    def sagemaker(self) -> Any:
        """Return the client of SageMaker."""
        return self.account.client("sagemaker")

    @cached_property
    def ecr(self) -> Any:
        """Return the client of ECR."""
        return self.account.client("ecr")

    @cached_property
    def s3(self) -> Any:
        """Return the client of S3."""
        return self.account.client("s3")


def described_cluster(environment: EksEnvironment, account: CallerAccount) -> Mapping[str, Any]:
    """Return EKS's description of the cluster. Raises UnreachableError unless it exists and has an endpoint."""
    with in_plain_words():
        cluster: Mapping[str, Any] = account.client("eks").describe_cluster(name=naming.eks_cluster(environment))[
            "cluster"
        ]
    if not cluster.get("endpoint"):
        state = f"EKS cluster {cluster['name']} is {cluster['status']} and has no endpoint yet"
        raise UnreachableError(f"{state}. Fix: wait for the deployment of the eks stack")
    return cluster


@contextmanager
def connect(environment: EksEnvironment, account: CallerAccount | None = None) -> Iterator[Clients]:
    """Yield clients of the environment, with the caller's own AWS credentials; `account` saves the check of them.

    Raises UnreachableError if there are no credentials, they belong to another account, or the EKS cluster does not
    exist yet.
    """
    account = account or CallerAccount(environment)
    with in_plain_words(), tempfile.NamedTemporaryFile(suffix=".crt") as authority:
        cluster = described_cluster(environment, account)
        authority.write(base64.b64decode(cluster["certificateAuthority"]["data"]))
        authority.flush()
        configuration = kubernetes.client.Configuration(host=cluster["endpoint"], ssl_ca_cert=authority.name, retries=1)
        sign = partial(_token, account.session, account.sts, cluster["name"])
        # The client calls its refresh hook only if a first token is set. A token lives for minutes and a wait takes
        # hours, so each request signs a new one.
        configuration.api_key["authorization"] = sign()
        configuration.refresh_api_key_hook = lambda settings: settings.api_key.update(authorization=sign())
        with kubernetes.client.ApiClient(configuration) as api:
            yield Clients(account, api)


def metadata(list_objects: Callable[..., Any]) -> list[Mapping[str, Any]]:
    """Return the metadata of the objects that a `list_…` method of a Kubernetes client finds, and nothing else of them.

    Raises ApiException if the API server refuses.
    """
    answer = list_objects(_preload_content=False, _headers=_ONLY_METADATA, _request_timeout=REQUEST_TIMEOUT)
    if answer.status != HTTPStatus.OK:
        raise kubernetes.client.ApiException(http_resp=answer)
    # The API server returns an empty list of metadata as null.
    return [item["metadata"] for item in json.loads(answer.data)["items"] or ()]


def _token(session: boto3.Session, sts: Any, cluster: str) -> str:
    """Return a bearer token for the EKS API: a presigned GetCallerIdentity bound to the cluster's name.

    Source: kubernetes-sigs/aws-iam-authenticator, "API Authorization from Outside a Cluster".
    """
    credentials = session.get_credentials()
    if credentials is None:
        raise UnreachableError("there are no AWS credentials. Fix: log in, or set AWS_PROFILE")
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
    return "Bearer k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
