"""STS and one Lambda function on loopback, as a controller calls them: with the role of its pod, and signed."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from botocore import auth, awsrequest
from botocore.credentials import Credentials as BotocoreCredentials

from controllers.aws_api import Credentials


@dataclass
class FakeAws:
    """STS and Lambda on one address; Lambda verifies each signature with the credentials that STS issued."""

    address: str
    role: str
    token: str = "a-token"
    issued: list[Credentials] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    answer: Any = field(default_factory=dict)
    """Of the function: a text, an object, or what makes one of an event."""
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Status and text of the answers of `sts` or `lambda`."""
    function_error: str = ""
    later: float = 0.0
    """By how many seconds the clocks of all are ahead."""

    def now(self) -> float:
        """Return the time of the services."""
        return time.time() + self.later

    def assume(self, form: dict[str, list[str]]) -> tuple[int, str]:
        """Return status and text of the answer to AssumeRoleWithWebIdentity."""
        wanted = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": self.role}
        assert {name: form[name][0] for name in wanted} == wanted
        if form["WebIdentityToken"] != [self.token]:
            return 403, "<Error><Code>InvalidIdentityToken</Code></Error>"
        n = len(self.issued) + 1
        until = self.now() + 3600
        self.issued.append(Credentials(f"AKID{n}", f"secret/{n}+=", f"token/{n}+==", until))
        new = self.issued[-1]
        expiration = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            "<AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{new.access_key}</AccessKeyId><SecretAccessKey>{new.secret_key}</SecretAccessKey>"
            f"<SessionToken>{new.session_token}</SessionToken><Expiration>{expiration}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )

    def verifies(self, path: str, headers: Any, body: bytes) -> bool:
        """Return whether botocore, with the same headers, makes the same signature."""
        at, sent = headers["X-Amz-Date"], headers["Authorization"]
        names = sent.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
        key, _, region, _ = sent.partition("Credential=")[2].partition("/aws4_request")[0].split("/")
        new = next(each for each in self.issued if each.access_key == key)
        request = awsrequest.AWSRequest("POST", f"{self.address}{path}", {name: headers[name] for name in names}, body)
        request.context["timestamp"] = at
        own = auth.SigV4Auth(BotocoreCredentials(new.access_key, new.secret_key, new.session_token), "lambda", region)
        expected = own.signature(own.string_to_sign(request, own.canonical_request(request)), request)
        return bool(sent.endswith(f"Signature={expected}"))

    def invoke(self, event: Any) -> str:
        """Return the function's answer to an event."""
        self.events.append(event)
        answer = self.answer(event) if callable(self.answer) else self.answer
        return answer if isinstance(answer, str) else json.dumps(answer)


@contextmanager
def serve(role: str, function: str) -> Iterator[FakeAws]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            service = "sts" if self.path == "/" else "lambda"
            fake.requests.append(service)
            status, text, error = 200, "", ""
            if refusal := fake.refuse.get(service):
                status, text = refusal
            elif service == "sts":
                status, text = fake.assume(parse_qs(body.decode()))
            elif not fake.verifies(self.path, self.headers, body):
                status, text = 403, '{"message":"The request signature we calculated does not match"}'
            else:
                assert self.path == f"/2015-03-31/functions/{function}/invocations"
                text, error = fake.invoke(json.loads(body)), fake.function_error
            self.send_response(status)
            if error:
                self.send_header("X-Amz-Function-Error", error)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake = FakeAws(f"http://127.0.0.1:{server.server_port}", role)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield fake
        server.shutdown()
