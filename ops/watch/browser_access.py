"""Let only the browser that was given the address use a page of this machine, request by request.

A page that any site shows can make the browser send requests to this machine, and Ray runs what it receives: below
2.52.0 its API refuses browsers by their User-Agent only, which a page can change (CVE-2025-62593,
https://github.com/ray-project/ray/security/advisories/GHSA-q279-jhrf-cc6v). So a request needs

- a Host of this machine: a site whose name resolves to 127.0.0.1 by now (DNS rebinding) still sends its own;
- no Origin, or its own: browsers send the Origin of another site with requests that change something, and with
  WebSockets;
- the token, from the address or from the cookie that the address sets.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode

END: Final = b"\r\n\r\n"
_LONGEST_HEAD_BYTES: Final = 64 * 1024
_REQUEST: Final = re.compile(r"[A-Z]+ (/[\x21-\x7e]*) HTTP/1\.1")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f]*)")
_SLASHES: Final = "/\\"
_FIX: Final = "Fix: open the address that `ops dashboard` prints"


class RejectedRequestError(Exception):
    """A request is not carried to the pod; `status` is the HTTP status, the message says why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LetInError(Exception):
    """A request with the token in its address: `answer` sets the cookie and leads to the address without the token."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True)
class BrowserRequest:
    """A request that may reach the pod: its rewritten `head`, and the number of bytes that follow it.

    With `upgrade`, it asks for a WebSocket, which lasts until a side closes it.
    """

    head: bytes
    length: int
    upgrade: bool


@dataclass(frozen=True)
class BrowserAccess:
    """The token of one `ops dashboard`. Cookies know no ports: the name tells this one's from another's."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: f"ops-dashboard-{secrets.token_hex(4)}")

    def address(self, port: int) -> str:
        """Return the address that lets a browser in. Ray's dashboard shows Grafana of `localhost`: the same site."""
        return f"http://localhost:{port}/?token={self.token}"

    def checked(self, head: bytes, port: int) -> BrowserRequest:
        """Return what the pod may get of a request whose head, with its last line, is `head`.

        Raises RefusedRequestError and LetInError.
        """
        target, fields = _parsed(head)
        hosts = _values(fields, "host")
        if len(hosts) != 1 or hosts[0].lower() not in {f"localhost:{port}", f"127.0.0.1:{port}"}:
            raise RejectedRequestError("403 Forbidden", f"the Host is not this machine's. {_FIX}")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in _values(fields, "origin")):
            raise RejectedRequestError("403 Forbidden", f"another site's page sent this. {_FIX}")
        self._require_token(target, fields)
        return _request(head, fields, self.cookie)

    def _require_token(self, target: str, fields: list[tuple[str, str]]) -> None:
        path, _, text = target.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        if any(key == "token" and self._is_token(value) for key, value in query):
            left = urlencode([(key, value) for key, value in query if key != "token"])
            # Two of them at its beginning would name another host.
            raise LetInError(self._let_in(f"/{path.lstrip(_SLASHES)}{f'?{left}' if left else ''}"))
        cookies = (cookie.strip().partition("=") for text in _values(fields, "cookie") for cookie in text.split(";"))
        if any(name == self.cookie and self._is_token(value) for name, _, value in cookies):
            return
        raise RejectedRequestError("403 Forbidden", f"the token is missing or another's. {_FIX}")

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    def _let_in(self, target: str) -> bytes:
        lines = (
            "HTTP/1.1 303 See Other",
            f"Location: {target}",
            f"Set-Cookie: {self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict",
            "Cache-Control: no-store",
            "Referrer-Policy: no-referrer",
            "Content-Length: 0",
            "Connection: close",
        )
        return "\r\n".join(lines).encode() + END


def is_too_long(head: bytes) -> bool:
    """Return whether nobody should wait for the end of this head."""
    return len(head) > _LONGEST_HEAD_BYTES


def _parsed(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    """Return the target and the fields of a head. Raises RefusedRequestError unless it is plain HTTP/1.1."""
    first, *lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    request, found = _REQUEST.fullmatch(first), [_FIELD.fullmatch(line) for line in lines]
    if request is None or not all(found):
        raise RejectedRequestError("400 Bad Request", "this is no request of HTTP/1.1. Fix: use a browser")
    return request[1], [(each[1].lower(), each[2].strip(" \t")) for each in found if each]


def _request(head: bytes, fields: list[tuple[str, str]], cookie: str) -> BrowserRequest:
    """Return the request as the pod gets it: the only one of its connection, and without the token."""
    lengths = _values(fields, "content-length") or ["0"]
    if _values(fields, "transfer-encoding") or len(lengths) > 1 or not re.fullmatch("[0-9]{1,15}", lengths[0]):
        raise RejectedRequestError("411 Length Required", "the length of the body is unknown. Fix: use a browser")
    upgrade = any(value.lower() == "websocket" for value in _values(fields, "upgrade"))
    lines = [head.split(b"\r\n", 1)[0].decode("latin-1")]
    for name, value in fields:
        kept = _without(value, cookie) if name == "cookie" else value
        if kept and name not in {"connection", "keep-alive"}:
            lines.append(f"{name}: {kept}")
    lines.append(f"connection: {'Upgrade' if upgrade else 'close'}")
    return BrowserRequest("\r\n".join(lines).encode("latin-1") + END, int(lengths[0]), upgrade)


def _values(fields: list[tuple[str, str]], name: str) -> list[str]:
    return [value for key, value in fields if key == name]


def _without(cookies: str, name: str) -> str:
    """Return a Cookie field without one cookie."""
    return "; ".join(each.strip() for each in cookies.split(";") if each.strip().partition("=")[0] != name)
