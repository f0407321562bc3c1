"""Authenticate bearer tokens for the clusters' API servers: the webhook that stands for EKS's authenticator.

A token of `aws eks get-token` is a presigned STS GetCallerIdentity request. EKS sends the request to STS; this module
checks the signature against the keys that the account has issued.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from werkzeug.exceptions import Unauthorized
from werkzeug.wrappers import Request

from embedded_account.admission.access_keys import AccessKeyOwner, UnknownKeyError, owner_of
from embedded_account.context import Account
from embedded_account.services.eks.access.policies import PolicyAssociation
from embedded_account.services.eks.service import EksService

_PREFIX = "k8s-aws-v1."
_CLUSTER_HEADER = "x-k8s-aws-id"
_LIFETIME = timedelta(minutes=15)
"""How long EKS accepts a token, regardless of the expiry that the token states (aws-iam-authenticator)."""


class InvalidTokenError(Exception):
    """A token is not accepted; the message gives the reason."""


def install(account: Account, service: EksService) -> None:
    """Answer POST /_rehearsal/authenticate/SECRET/CLUSTER with a TokenReview."""

    def review(request: Request, rest: str) -> Mapping[str, Any]:
        secret, _, cluster_name = rest.partition("/")
        if not hmac.compare_digest(secret.encode(), account.authenticator_secret.encode()):
            raise Unauthorized("only the API servers that the account has started can authenticate tokens")
        asked = request.get_json()
        try:
            user = authenticate(account, service, cluster_name, asked["spec"]["token"])
            status: dict[str, Any] = {"authenticated": True, "user": user}
        except InvalidTokenError as refusal:
            status = {"authenticated": False, "error": str(refusal)}
        who = status.get("user", {}).get("username") or status["error"]
        account.journal.record(
            "eks", action="authenticate", cluster=cluster_name, accepted=status["authenticated"], who=who
        )
        return {"apiVersion": asked["apiVersion"], "kind": "TokenReview", "status": status}

    account.routes.route("POST", "authenticate", review, secret_address=True)


def authenticate(account: Account, service: EksService, cluster_name: str, token: str) -> dict[str, Any]:
    """Return the user name, uid and groups of a token in one cluster. Raises InvalidTokenError."""
    caller = verify(account, cluster_name, token)
    entry = service.entries.find(cluster_name, caller.arn)
    if entry is None:
        raise InvalidTokenError(f"no access entry of cluster {cluster_name} for {caller.arn}")
    administers = PolicyAssociation(caller.arn, "AmazonEKSClusterAdminPolicy") in entry.grants()
    return {
        "username": entry.user(caller.session_name),
        "uid": f"aws-iam-authenticator:{account.account_id}:{caller.credentials.access_key}",
        "groups": [*entry.groups(), *(["system:masters"] if administers else [])],
    }


def verify(account: Account, cluster_name: str, token: str) -> AccessKeyOwner:
    """Return the owner of the key that signed the token for this cluster. Raises InvalidTokenError."""
    url = urlsplit(_decoded(token))
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    if url.netloc not in (f"127.0.0.1:{account.port}", f"localhost:{account.port}"):
        raise InvalidTokenError(f"the token is for {url.netloc}, not for this account's STS")
    if query.get("Action") != "GetCallerIdentity":
        raise InvalidTokenError("the token is not a GetCallerIdentity request")
    try:
        signed_at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        access_key_id, _, region, service, _ = query["X-Amz-Credential"].split("/")
        signature, signed_headers = query.pop("X-Amz-Signature"), query["X-Amz-SignedHeaders"].split(";")
    except (KeyError, ValueError) as error:
        raise InvalidTokenError(f"the token is not signed with Signature Version 4: {error}") from error
    if abs(account.clock.now() - signed_at) > _LIFETIME:
        raise InvalidTokenError(f"the token of {signed_at:%H:%M:%S} UTC has expired")
    if _CLUSTER_HEADER not in signed_headers:
        raise InvalidTokenError(f"the token's signature does not cover {_CLUSTER_HEADER}")
    try:
        caller = owner_of(account, access_key_id, query.get("X-Amz-Security-Token"))
    except UnknownKeyError as error:
        raise InvalidTokenError(str(error)) from error
    # The URL does not contain the header's value: only a signature made for this cluster's name can match.
    request = AWSRequest("GET", f"{url.scheme}://{url.netloc}{url.path}?{urlencode(query)}")
    request.headers[_CLUSTER_HEADER] = cluster_name
    request.context["timestamp"] = query["X-Amz-Date"]
    if not hmac.compare_digest(_signature(request, caller.credentials, service, region), signature):
        raise InvalidTokenError(f"the token's signature is wrong, or was made for a cluster other than {cluster_name}")
    return caller


def _decoded(token: str) -> str:
    encoded = token.removeprefix(_PREFIX)
    if encoded == token:
        raise InvalidTokenError(f"the token does not begin with {_PREFIX}")
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidTokenError(f"the token cannot be decoded: {error}") from error


def _signature(request: AWSRequest, credentials: Credentials, service: str, region: str) -> str:
    auth = SigV4QueryAuth(credentials, service, region)
    return str(auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request))
