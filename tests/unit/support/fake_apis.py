"""Fake AWS and Kubernetes APIs on localhost, which serve the answers that a test puts into `Apis`."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

Answer = Mapping[str, Any]

IDENTITY = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::{account}:role/Someone</Arn><UserId>A:s</UserId><Account>{account}</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""


@dataclass
class Apis:
    """The answers by AWS operation or Kubernetes path; any other request is answered as not found.

    A `(status, body)` pair is an answer with that status. Of a list, each request gets the next item, and the last
    item is repeated.
    """

    endpoint: str
    account: str = "111122223333"
    aws: dict[str, Any] = field(default_factory=dict)
    kubernetes: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    changes: list[tuple[str, Any]] = field(default_factory=list)
    """The requested changes: an AWS operation, or a Kubernetes method and path, with the body."""

    def refuse(self, status: int, message: str) -> None:
        """Make the Kubernetes API refuse every request."""
        self.kubernetes = {"": (status, {"kind": "Status", "message": message})}


def aws_error(code: str, message: str, status: int = 400) -> tuple[int, Answer]:
    """Return an answer with an error of an AWS JSON protocol."""
    return status, {"__type": code, "code": code, "message": message}


@contextmanager
def serve() -> Iterator[Apis]:
    """Serve both APIs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Without buffering, each answer would wait for the client's acknowledgement of the headers.
        wbufsize = -1

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith("/clusters/"):
                self._aws("DescribeEksCluster")
                return
            apis.tokens.append(self.headers.get("authorization", ""))
            missing = 404, {"kind": "Status", "message": f"{path} not found"}
            self._send(_next(apis.kubernetes, path if path in apis.kubernetes else "", missing), "application/json")

        def do_PATCH(self) -> None:
            self._change("PATCH", self._body())

        def do_DELETE(self) -> None:
            self._change("DELETE", self._body() or "null")

        def do_POST(self) -> None:
            body = self._body()
            if self.path.startswith("/api"):
                self._change("POST", body)
            elif "Action=GetCallerIdentity" in body and "GetCallerIdentity" not in apis.aws:
                self._send((200, IDENTITY.format(account=apis.account)), "text/xml")
            else:
                operation = self.headers.get("x-amz-target", "").rpartition(".")[2] or body.split("&")[0][7:]
                if not operation.startswith(("Describe", "List", "Get")):
                    apis.changes.append((operation, json.loads(body)))
                self._aws(operation, dict(parse_qsl(body)))

        def _body(self) -> str:
            return self.rfile.read(int(self.headers.get("content-length", 0))).decode()

        def _change(self, method: str, body: str) -> None:
            change = f"{method} {self.path.partition('?')[0]}"
            content = json.loads(body)
            apis.changes.append((change, content))
            answer = _next(apis.kubernetes, change, (200, {"metadata": {"name": "changed"}}))
            # As for the API server, a JSON patch is a list, and any other change is an object.
            if isinstance(content, list) is not ("json-patch" in self.headers.get("content-type", "")):
                answer = 400, {"kind": "Status", "message": "error decoding patch"}
            self._send(answer, "application/json")

        def _aws(self, operation: str, parameters: Mapping[str, str] | None = None) -> None:
            unknown = aws_error("ResourceNotFound", f"{operation} has no answer")
            answer = _next(apis.aws, operation, unknown)
            if parameters and (stack := parameters.get("StackName")) and operation == "DescribeStacks":
                answer = _of_stack(stack, answer)
            self._send(answer, "application/x-amz-json-1.1")

        def _send(self, answer: tuple[int, Any], content_type: str) -> None:
            status, content = answer
            data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "text/xml" if isinstance(content, str) else content_type)
            self.send_header("content-length", str(len(data)))
            self.send_header("last-modified", "Sun, 01 Nov 2026 10:00:00 GMT")
            if status >= 400 and isinstance(content, Mapping) and "__type" in content:
                self.send_header("x-amzn-errortype", content["__type"])
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    apis = Apis(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield apis
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _of_stack(name: str, answer: tuple[int, Any]) -> tuple[int, Any]:
    """Return CloudFormation's answer for one stack, taken from its answer for all."""
    status, text = answer
    if status != 200:
        return answer
    members = re.findall(r"<member>.*?</member>", text)
    own = [member for member in members if f"<StackName>{name}</StackName>" in member]
    if own:
        return status, text.replace("".join(members), own[0])
    error = f"<Error><Code>ValidationError</Code><Message>Stack with id {name} does not exist</Message></Error>"
    return 400, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"


def _next(answers: dict[str, Any], key: str, otherwise: tuple[int, Any]) -> tuple[int, Any]:
    answer = answers.get(key, otherwise)
    if isinstance(answer, list):
        answer = answer.pop(0) if len(answer) > 1 else answer[0]
    return answer if isinstance(answer, tuple) else (200, answer)
