"""Answer for the simulated heads of RayClusters which jobs run on them: none, because no program runs in them.

Only this question is answered: any other request is refused with 501 and the reason.
"""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.podserver import ADDRESS, PodRecord, PodRecords

SELECTOR: Final = "ray.io/node-type=head"
_DASHBOARD: Final = 8265
_LIST_OF_JOBS: Final = "/api/jobs/"
_REFUSAL: Final = "the head's pod is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"


class SimulatedHeads:
    """The heads of one control plane that no program runs in, behind one server on the loopback address."""

    def __init__(self, records: PodRecords) -> None:
        self._records = records
        self._heads: dict[str, Object] = {}
        self._server = ThreadingHTTPServer((ADDRESS, 0), _Answer)
        self._record = PodRecord({}, (), {_DASHBOARD: f"{ADDRESS}:{self._server.server_address[1]}"})
        threading.Thread(target=self._server.serve_forever, name="simulated heads", daemon=True).start()

    def update(self, heads: Mapping[str, Object]) -> None:
        """Answer for exactly these pods, by uid."""
        for uid in self._heads.keys() - heads.keys():
            self._records.remove(self._heads.pop(uid))
        for uid, pod in heads.items():
            self._records.keep(pod, self._record)
            self._heads[uid] = pod


class _Answer(BaseHTTPRequestHandler):
    """Answers as Ray's Jobs API would on a head without a job."""

    def do_GET(self) -> None:
        if self.path == _LIST_OF_JOBS:
            self._send(200, "application/json", "[]")
        else:
            self._refuse()

    def _refuse(self) -> None:
        self._send(501, "text/plain", _REFUSAL)

    do_DELETE = do_POST = do_PUT = _refuse

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing: the control plane's log is for its own errors."""
