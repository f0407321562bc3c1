"""Start the real `hyp` as a person, with the proxies that keep its telemetry from leaving."""

import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self

from embedded_account.machine import isolation
from rehearsal.paths import REPOSITORY

PROGRAMS: Final = REPOSITORY / ".venv-hyp" / "bin"
CLOSED: Final = "http://127.0.0.1:9"
"""No program listens here: a connection is refused at once."""


@dataclass
class Proxy:
    """A proxy that notes what it is asked for, and refuses it; inside a `with` statement."""

    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        asked = self.asked

        class Refuse(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                asked.append(self.path)
                self.send_error(403)

            do_GET = do_POST = do_CONNECT

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing, to keep the tests' output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Hyp:
    """The client on one person's machine: credentials, a home directory, and the address of the account."""

    home: Path
    endpoint: str
    region: str
    account: str
    keys: Mapping[str, str]
    kubectl: Path
    """The client asks kubectl for the account that its telemetry names."""

    def environment(self, proxy: str = CLOSED) -> dict[str, str]:
        """Return the variables of the client; everything but this machine's own addresses goes to `proxy`."""
        found = isolation.child_environment(
            self.home, endpoint=self.endpoint, region=self.region, account_id=self.account, extra=self.keys
        )
        path = f"{PROGRAMS}:{self.kubectl.parent}:/usr/bin:/bin"
        return found | {"PATH": path, "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost"}

    def __call__(self, *words: str, proxy: str = CLOSED) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        assert (PROGRAMS / "hyp").exists(), "Fix: make setup-hyp"
        argv = [str(PROGRAMS / "hyp"), *words]
        return subprocess.run(
            argv, env=self.environment(proxy), cwd=self.home, check=False, capture_output=True, text=True
        )
