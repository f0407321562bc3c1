"""Container registries on loopback addresses: crane's own in-memory registry, and a gate before it with a login."""

import base64
import http.client
import io
import re
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Registry:
    """A running registry of `crane registry serve`; `disk` holds its blobs as files."""

    def __init__(self, crane: Path, host: str, disk: Path) -> None:
        self.crane = crane
        self.host = host
        self.disk = disk

    def __call__(self, *arguments: str) -> str:
        """Run crane and return its output."""
        done = subprocess.run([str(self.crane), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def digest(self, name: str) -> str:
        return self("digest", f"{self.host}/{name}")

    def publish(self, name: str, content: str, scratch: Path) -> str:
        """Publish an image for two platforms, and return its address."""
        layer = scratch / "layer.tar"
        with tarfile.open(layer, "w") as archive:
            entry = tarfile.TarInfo("content")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
        made = f"{self.host}/{name}"
        repository = made.rpartition(":")[0]
        self("append", "-f", str(layer), "-t", made)
        for architecture in ("amd64", "arm64"):
            self("mutate", made, "--set-platform", f"linux/{architecture}", "-t", f"{repository}:{architecture}")
        self("index", "append", "-m", f"{repository}:amd64", "-m", f"{repository}:arm64", "-t", made)
        return made


@contextmanager
def serve(crane: Path, disk: Path) -> Iterator[Registry]:
    """Serve a registry on a free port."""
    disk.mkdir()
    command = [str(crane), "registry", "serve", "--address", "127.0.0.1:0", "--disk", str(disk)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            port = next(found[1] for line in process.stderr if (found := re.search(r"serving on port (\d+)", line)))
            # Read on, or the registry would stand still once the pipe is full.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield Registry(crane, f"127.0.0.1:{port}", disk)
        finally:
            process.kill()


class Gate:
    """A registry's address that takes one login only; it is also a proxy that plays ECR's hosts by TLS."""

    def __init__(self, registry: Registry, login: str, certificate: Path) -> None:
        self._allowed = f"Basic {login}"
        self.registry = registry
        self.certificate = certificate
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_CONNECT(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.connection = context.wrap_socket(self.connection, server_side=True)
                self.rfile = self.connection.makefile("rb")
                self.wfile = self.connection.makefile("wb", 0)

            def do_GET(self) -> None:
                gate._answer(self)

            do_HEAD = do_POST = do_PUT = do_PATCH = do_GET

            def log_message(self, *_: Any) -> None:
                """Keep the test's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if request.headers.get("Authorization") != self._allowed:
            refusal = b'{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}'
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="test"')
            request.send_header("Content-Length", str(len(refusal)))
            request.end_headers()
            request.wfile.write(refusal if request.command != "HEAD" else b"")
            return
        upstream = http.client.HTTPConnection(self.registry.host)
        kept = {name: value for name, value in request.headers.items() if name.lower() not in {"host", "connection"}}
        if request.headers.get("Transfer-Encoding") == "chunked":
            body = _chunked(request.rfile)
            kept = {name: value for name, value in kept.items() if name.lower() != "transfer-encoding"}
        upstream.request(request.command, request.path, body, kept)
        answer = upstream.getresponse()
        content = answer.read()
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                request.send_header(name, value)
        head = request.command == "HEAD"
        request.send_header("Content-Length", answer.headers.get("Content-Length", "0") if head else str(len(content)))
        request.end_headers()
        request.wfile.write(content)
        upstream.close()


def _chunked(stream: Any) -> bytes:
    content = b""
    while size := int(stream.readline(), 16):
        content += stream.read(size)
        stream.readline()
    stream.readline()
    return content


def certificate(host: str, file: Path) -> Path:
    """Write a key and a certificate of the host, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


def login_of(user: str, password: str) -> str:
    """Return a login as Docker's configuration and ECR write it."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()
