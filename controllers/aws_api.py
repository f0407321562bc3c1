"""The two calls of AWS that a controller makes, with the standard library only: a role's credentials, and a function.

A pod has no other credentials than its service account's role (IRSA): EKS writes the role and the file of its token
into the environment (EKS user guide, "pod-identity-webhook").
"""

import hashlib
import hmac
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

NO_ANSWER: Final = 0
RENEW_SECONDS: Final = 600.0
"""Credentials are renewed when they are valid for less than this time; STS issues them for an hour."""

_TIMEOUT_SECONDS: Final = 10.0
# The function calls SageMaker twice, and may be started for it.
_INVOKE_TIMEOUT_SECONDS: Final = 30.0
_STS_NAMESPACE: Final = "{https://sts.amazonaws.com/doc/2011-06-15/}"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AwsApiError(Exception):
    """A call of AWS failed; `status` is the HTTP status, or NO_ANSWER if there was no usable answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status


@dataclass(frozen=True)
class Credentials:
    """Temporary credentials, which end at `expires_at`, in seconds since the epoch."""

    access_key: str
    secret_key: str
    session_token: str
    expires_at: float


@dataclass(frozen=True)
class AwsAccess:
    """The pod's role, the file of its web identity token, and the addresses of the two services."""

    region: str
    role_arn: str
    token_file: Path
    sts: str
    functions: str

    @classmethod
    def of_environment(cls, region: str, variables: Mapping[str, str]) -> Self:
        """Return what EKS writes into a pod's environment, with addresses that the SDKs' variables may redirect.

        Raises KeyError if the pod has no role.
        """
        return cls(
            region=region,
            role_arn=variables["AWS_ROLE_ARN"],
            token_file=Path(variables["AWS_WEB_IDENTITY_TOKEN_FILE"]),
            sts=_address("sts", region, variables),
            functions=_address("lambda", region, variables),
        )


def _address(service: str, region: str, variables: Mapping[str, str]) -> str:
    """Return a service's address; the AWS SDKs read the same variables (SDK guide, service-specific endpoints)."""
    given = variables.get(f"AWS_ENDPOINT_URL_{service.upper()}") or variables.get("AWS_ENDPOINT_URL")
    return given or f"https://{service}.{region}.amazonaws.com"


class AwsApi:
    """Calls with the credentials of the pod's role, which are kept until they are about to expire."""

    def __init__(self, access: AwsAccess, session: str) -> None:
        """Take the name of the role's session, which CloudTrail shows."""
        self._access = access
        self._session = session
        self._credentials: Credentials | None = None

    def invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return a Lambda function's answer to an event. Raises AwsApiError."""
        url = f"{self._access.functions.rstrip('/')}/2015-03-31/functions/{quote(function, safe='')}/invocations"
        body = json.dumps(event).encode()
        headers = signed(
            "POST",
            url,
            {"Content-Type": "application/json"},
            body,
            credentials=self._role(),
            region=self._access.region,
            service="lambda",
            now=time.time(),
        )
        try:
            found, text = _post(url, headers, body, _INVOKE_TIMEOUT_SECONDS)
        except AwsApiError as error:
            if error.status in (401, 403):
                # The role or its credentials may have changed: the next call asks for new ones.
                self._credentials = None
            raise
        if failure := found.get("X-Amz-Function-Error"):
            raise AwsApiError(NO_ANSWER, f"function {function} failed: {failure}: {text[:500]}")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise AwsApiError(NO_ANSWER, f"the answer of function {function} is no JSON: {text[:200]}") from error
        if not isinstance(answer, dict):
            raise AwsApiError(NO_ANSWER, f"the answer of function {function} is no object: {text[:200]}")
        return answer

    def _role(self) -> Credentials:
        """Return credentials that are valid for a while, old ones if STS gives no new ones. Raises AwsApiError."""
        known = self._credentials
        left = known.expires_at - time.time() if known else 0.0
        if known is None or left < RENEW_SECONDS:
            try:
                known = self._assume()
            except AwsApiError:
                if known is None or left < _INVOKE_TIMEOUT_SECONDS:
                    raise
            self._credentials = known
        return known

    def _assume(self) -> Credentials:
        """Call AssumeRoleWithWebIdentity. The kubelet renews the token, so its file is read for each call."""
        try:
            token = self._access.token_file.read_text().strip()
        except OSError as error:
            raise AwsApiError(NO_ANSWER, f"the web identity token cannot be read: {error}") from error
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self._access.role_arn,
            # STS API reference: letters, digits and =,.@-_, at most 64.
            "RoleSessionName": self._session[:64],
            "WebIdentityToken": token,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        _, text = _post(f"{self._access.sts.rstrip('/')}/", headers, urlencode(form).encode(), _TIMEOUT_SECONDS)
        return _credentials(text)


def signed(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    credentials: Credentials,
    region: str,
    service: str,
    now: float,
) -> dict[str, str]:
    """Return the headers of a request with those of Signature Version 4 (IAM user guide, "Create a signed request")."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    made = {**headers, "Host": _host(url), "X-Amz-Date": at, "X-Amz-Security-Token": credentials.session_token}
    canonical = {name.lower(): " ".join(value.split()) for name, value in sorted(made.items(), key=_lower)}
    names = ";".join(canonical)
    parts = urlsplit(url)
    request = "\n".join(
        [
            method,
            # Every service but S3 takes the path encoded a second time.
            quote(parts.path or "/", safe="/~"),
            _query(parts.query),
            *(f"{name}:{value}" for name, value in canonical.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([_ALGORITHM, at, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    signature = _hmac(key, text).hex()
    made["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return made


def _query(text: str) -> str:
    """Return an encoded query in the order of its keys."""
    pairs = sorted(pair.partition("=")[::2] for pair in text.split("&") if pair)
    return "&".join(f"{key}={value}" for key, value in pairs)


def _lower(header: tuple[str, str]) -> str:
    return header[0].lower()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _host(url: str) -> str:
    """Return the host of an address, with its port unless it is the scheme's own."""
    parts = urlsplit(url)
    own = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.hostname}:{parts.port}" if parts.port not in (None, own) else str(parts.hostname)


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> tuple[http.client.HTTPMessage, str]:
    """Return headers and text of the answer. Raises AwsApiError if there is none, or it is an error."""
    parts = urlsplit(url)
    try:
        connection = _connection(parts.scheme, str(parts.hostname), parts.port, timeout)
        try:
            connection.request("POST", parts.path, body, dict(headers))
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AwsApiError(NO_ANSWER, f"{parts.hostname}: {error!r}") from error
    if response.status >= 300:
        raise AwsApiError(response.status, f"{parts.hostname}: {' '.join(text.split())[:500]}")
    return response.headers, text


def _connection(scheme: str, host: str, port: int | None, timeout: float) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())


def _credentials(text: str) -> Credentials:
    """Return the credentials of an answer of STS. Raises AwsApiError."""
    try:
        found = ElementTree.fromstring(text).find(f".//{_STS_NAMESPACE}Credentials")  # noqa: S314 - the answer of AWS
        if found is None:
            raise ValueError("it has no credentials")
        own = {item.tag.removeprefix(_STS_NAMESPACE): item.text or "" for item in found}
        expires_at = datetime.fromisoformat(own["Expiration"]).timestamp()
        return Credentials(own["AccessKeyId"], own["SecretAccessKey"], own["SessionToken"], expires_at)
    except (ElementTree.ParseError, ValueError, KeyError) as error:
        # Without the text: it may have a secret.
        raise AwsApiError(NO_ANSWER, f"the answer of STS cannot be read: {error!r}") from error
