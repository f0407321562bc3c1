"""Verify Signature Version 4 with botocore's own signer: in the header, or in the query of a presigned URL.

The signature covers the method, the URL, the signed headers and the body's hash, which a header may state.
"""

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from werkzeug.wrappers import Request

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SKEW: Final = timedelta(minutes=15)
_HASH: Final = "X-Amz-Content-SHA256"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
"""The other values, such as UNSIGNED-PAYLOAD, state no hash."""


class UnsignedError(Exception):
    """The request has no signature."""


class SignatureRefusedError(Exception):
    """The signature is malformed, wrong, or expired. `code` is AWS's error code, `status` that of HTTP."""

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Signature:
    """The signature of a request. Raises UnsignedError or SignatureRefusedError."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._presigned = "Authorization" not in request.headers
        fields = self._query_fields() if self._presigned else self._header_fields()
        try:
            self.access_key_id, _, self._region, self.service, _ = fields["Credential"].split("/")
            self._signed_headers = fields["SignedHeaders"].split(";")
            self._signature = fields["Signature"]
            self._date = fields["Date"]
            self._signed_at = datetime.strptime(self._date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            self._valid_for = timedelta(seconds=int(fields["Expires"])) if self._presigned else _SKEW
        except (KeyError, ValueError) as error:
            message = f"the request is not signed with Signature Version 4: {error}"
            raise SignatureRefusedError("IncompleteSignature", message) from error
        self.session_token: str | None = fields.get("Security-Token")

    def verify(self, credentials: Credentials, now: datetime) -> None:
        """Verify the time and the signature. Raises SignatureRefusedError."""
        if not -_SKEW < now - self._signed_at < self._valid_for:
            message = f"the request was signed at {self._date}, too far from the current time"
            raise SignatureRefusedError("RequestTimeTooSkewed", message)
        auth = self._auth(credentials)
        signed = self._as_signed()
        expected = auth.signature(auth.string_to_sign(signed, auth.canonical_request(signed)), signed)
        if not hmac.compare_digest(expected, self._signature):
            message = f"the signature made with {self.access_key_id} is wrong"
            raise SignatureRefusedError("SignatureDoesNotMatch", message)
        stated = signed.headers.get(_HASH, "")
        if _SHA256.fullmatch(stated) and hashlib.sha256(body_of(self._request)).hexdigest() != stated:
            message = "The provided 'x-amz-content-sha256' header does not match what was computed."
            raise SignatureRefusedError("XAmzContentSHA256Mismatch", message, 400)

    def _header_fields(self) -> dict[str, str]:
        headers = self._request.headers
        algorithm, _, rest = headers["Authorization"].partition(" ")
        if algorithm != _ALGORITHM:
            raise SignatureRefusedError("IncompleteSignature", f"the request is signed with {algorithm!r}")
        fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        fields |= {"Date": headers.get("X-Amz-Date", "")}
        if token := headers.get("X-Amz-Security-Token"):
            fields["Security-Token"] = token
        return fields

    def _query_fields(self) -> dict[str, str]:
        query = dict(parse_qsl(_raw(self._request).query, keep_blank_values=True))
        if "X-Amz-Signature" not in query:
            raise UnsignedError("the request is not signed")
        return {name.removeprefix("X-Amz-"): value for name, value in query.items() if name.startswith("X-Amz-")}

    def _auth(self, credentials: Credentials) -> SigV4Auth:
        s3 = self.service == "s3"  # S3 signs paths as sent, the others encode them once more
        kind = (S3SigV4QueryAuth if s3 else SigV4QueryAuth) if self._presigned else (S3SigV4Auth if s3 else SigV4Auth)
        return kind(credentials, self.service, self._region)

    def _as_signed(self) -> AWSRequest:
        raw, request = _raw(self._request), self._request
        query = "&".join(part for part in raw.query.split("&") if not part.startswith("X-Amz-Signature="))
        signed = AWSRequest(request.method, f"http://{request.headers['Host']}{raw.path}?{query}")
        for name in self._signed_headers:
            signed.headers[name] = request.headers.get(name, "")
        if _HASH not in signed.headers and not self._presigned:
            signed.data = body_of(request)
        signed.context["timestamp"] = self._date
        return signed


def body_of(request: Request) -> bytes:
    """Return the body, and leave it readable for the application behind."""
    body = request.get_data()
    request.environ["wsgi.input"] = BytesIO(body)
    return body


def _raw(request: Request) -> SplitResult:
    return urlsplit(request.environ["RAW_URI"])
