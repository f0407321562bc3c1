"""A fake API server on localhost: pods, nodes, jobs and leases, with TLS, tokens, watches and preconditions."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

from controllers.kubernetes_api import ApiServer
from embedded_account.kubernetes.pki import Pki

Object = dict[str, Any]

PODS = "/api/v1/namespaces/ray/pods"
NODES = "/api/v1/nodes"
SECRETS = "/api/v1/namespaces/ray/secrets"
JOBS = "/apis/batch/v1/namespaces/ray/jobs"
BUILDS = "/apis/batch/v1/namespaces/image-build/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray/leases"
EVENTS = "/api/v1/namespaces/ray/events"
ALL_PODS = "/api/v1/pods"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/ray/rayclusters"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Ended:
    """A marker that a test queues instead of an event: the server ends the watch."""


@dataclass
class FakeKubernetes:
    """The server's objects, and the requests that it got."""

    cluster: ApiServer
    collections: dict[str, dict[str, Object]] = field(
        default_factory=lambda: {PODS: {}, NODES: {}, JOBS: {}, BUILDS: {}, LEASES: {}, SECRETS: {}}
    )
    watched: dict[str, "Queue[Object | type[Ended]]"] = field(default_factory=lambda: {PODS: Queue(), NODES: Queue()})
    live: set[str] = field(default_factory=set)
    """Collections whose watches show what a test changes in `collections`, instead of what it queues in `watched`."""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of each list of a live collection: what it showed, by its resourceVersion."""
    forbidden: set[str] = field(default_factory=set)
    """Each `verb resource` that a SelfSubjectAccessReview denies."""
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Map `METHOD path` to the status and message of an error."""
    requests: list[tuple[str, str, Object]] = field(default_factory=list)
    """Method, path with query, body of each request."""
    tokens: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, item: Object) -> None:
        """Add or replace an object, as an administrator would."""
        self.collections[path][item["metadata"]["name"]] = item

    def asked(self, method: str, path: str) -> list[Object]:
        """Return the bodies of a method's requests whose path begins with `path`."""
        return [body for asked, where, body in self.requests if asked == method and where.startswith(path)]

    def answer(self, method: str, target: str, body: Object) -> tuple[int, Object]:
        """Return status and body of the answer to any request but a watch."""
        path, _, query = target.partition("?")
        if refusal := self.refuse.get(f"{method} {path}"):
            return refusal[0], {"kind": "Status", "message": refusal[1]}
        if method == "POST":
            return self._create(path, body)
        if path in self.collections:
            return self._list(path, query)
        collection, _, name = path.removesuffix("/status").rpartition("/")
        with self.lock:
            return self._on_one(method, collection, name, body)

    def _on_one(self, method: str, collection: str, name: str, body: Object) -> tuple[int, Object]:
        found = self.collections[collection].get(name)
        if found is None:
            return 404, {"kind": "Status", "message": f"{name} not found"}
        if method == "PUT":
            return self._update(collection, found, body)
        if method == "DELETE":
            wanted = body["preconditions"]
            if any(found["metadata"][key] != value for key, value in wanted.items()):
                return 409, {"kind": "Status", "message": "precondition failed"}
            del self.collections[collection][name]
        return 200, found

    def _create(self, path: str, body: Object) -> tuple[int, Object]:
        if path == REVIEWS:
            attributes = body["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
            allowed = f"{attributes['verb']} {resource}" not in self.forbidden
            return 201, {**body, "status": {"allowed": allowed}}
        if path.endswith("/leases"):
            with self.lock:
                name = body["metadata"]["name"]
                if name in self.collections[path]:
                    return 409, {"kind": "Status", "message": f"{name} already exists"}
                self.collections[path][name] = body | {"metadata": body["metadata"] | {"resourceVersion": "1"}}
                return 201, self.collections[path][name]
        return 201, body

    def _update(self, collection: str, found: Object, body: Object) -> tuple[int, Object]:
        version = found["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != version:
            return 409, {"kind": "Status", "message": "the object has been modified"}
        new = body | {"metadata": body["metadata"] | {"resourceVersion": str(int(version) + 1)}}
        self.collections[collection][body["metadata"]["name"]] = new
        return 200, new

    def _list(self, path: str, query: str) -> tuple[int, Object]:
        """Return pages of at most two objects, whatever the limit; of a live collection, all."""
        if path in self.live:
            shown = self._shown(path, query)
            metadata = {"resourceVersion": self._remember(shown)}
            return 200, {"items": [json.loads(text) for text in shown.values()], "metadata": metadata}
        items = list(self.collections[path].values())
        start = int(parse_qs(query).get("continue", ["0"])[0])
        metadata = {"resourceVersion": "100"} | ({"continue": str(start + 2)} if len(items) > start + 2 else {})
        return 200, {"items": items[start : start + 2], "metadata": metadata}

    def changes(self, path: str, query: str, known: str) -> tuple[list[Object], str]:
        """Return the events of a live collection since a version, and the version that they lead to.

        An object without a resourceVersion gets that one.
        """
        before = self.versions[known]
        now = self._shown(path, query)
        if now == before:
            return [], known
        version = self._remember(now)
        kinds = {name: "MODIFIED" if name in before else "ADDED" for name in now if now[name] != before.get(name)}
        kinds |= {name: "DELETED" for name in before if name not in now}
        events = []
        for name, kind in kinds.items():
            item = json.loads((before if kind == "DELETED" else now)[name])
            item["metadata"].setdefault("resourceVersion", version)
            events.append({"type": kind, "object": item})
        return events, version

    def _shown(self, path: str, query: str) -> dict[str, str]:
        """Return the objects of a live collection that a labelSelector selects, as JSON by namespace and name."""
        key, _, value = parse_qs(query).get("labelSelector", [""])[0].partition("=")
        items = list(self.collections[path].values())
        chosen = (item for item in items if not key or (key, value) in _labels(item))
        # Pods of two namespaces may have the same name.
        return {f"{item['metadata'].get('namespace')}/{item['metadata']['name']}": json.dumps(item) for item in chosen}

    def _remember(self, shown: dict[str, str]) -> str:
        version = str(1000 + len(self.versions))
        self.versions[version] = shown
        return version


def _labels(item: Object) -> list[tuple[str, str]]:
    """Return an object's labels; none if a test spoilt them."""
    labels = item["metadata"].get("labels")
    return list(labels.items()) if isinstance(labels, dict) else []


@contextmanager
def serve(pki: Pki, account: Path) -> Iterator[FakeKubernetes]:
    """Serve until the block ends, and write the service account's files to `account`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            if "watch=1" in urlsplit(self.path).query:
                self._watch()
            else:
                self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _answer(self) -> None:
            self._send(*fake.answer(self.command, self.path, self._note()))

        def _note(self) -> Object:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body: Object = json.loads(text) if text else {}
            fake.requests.append((self.command, self.path, body))
            fake.tokens.append(self.headers["Authorization"])
            return body

        def _send(self, status: int, body: Object) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _watch(self) -> None:
            self._note()
            path, _, query = self.path.partition("?")
            if refusal := fake.refuse.get(f"WATCH {path}"):
                self._send(refusal[0], {"kind": "Status", "message": refusal[1]})
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
                for event in self._live_events(path, query) if path in fake.live else self._queued_events(path):
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

        def _queued_events(self, path: str) -> Iterator[Object]:
            while not ending.is_set():
                with suppress(Empty):
                    event = fake.watched[path].get(timeout=0.02)
                    if isinstance(event, type):
                        return
                    yield event

        def _live_events(self, path: str, query: str) -> Iterator[Object]:
            version = parse_qs(query)["resourceVersion"][0]
            if version not in fake.versions:
                yield {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
                return
            while not ending.wait(0.02):
                events, version = fake.changes(path, query, version)
                yield from events

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    ending = threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_certificate, pki.server_key)
    account.mkdir()
    (account / "token").write_text("first")
    (account / "ca.crt").write_bytes(pki.ca.read_bytes())
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        fake = FakeKubernetes(ApiServer("localhost", server.server_port, account))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield fake
        ending.set()
        server.shutdown()
