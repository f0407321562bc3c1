"""Fakes of NVIDIA's exporter of GPUs (NVIDIA/dcgm-exporter 4.5.3-4.8.2), each on a loopback address."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from controllers.busy_gpus import PORT


@dataclass
class FakeExporter:
    """An exporter of eight GPUs; `metrics` replaces its answer."""

    host: str
    utilisation: float = 0
    """Of the last GPU; the others are idle."""
    metrics: str | None = None
    status: int = 200
    silent: float = 0
    """Seconds until it answers."""
    asked: int = 0

    def answer(self) -> str:
        """Return what the exporter shows."""
        if self.metrics is not None:
            return self.metrics
        return "".join(
            f"# HELP {name} Text.\n# TYPE {name} gauge\n"
            + "".join(
                f'{name}{{gpu="{n}",UUID="GPU-{n}",device="nvidia{n}",modelName="NVIDIA H100 80GB HBM3",'
                f'container="",namespace="",pod=""}} {value if n == 7 else 0}\n'
                for n in range(8)
            )
            for name, value in (("DCGM_FI_DEV_GPU_TEMP", 30), ("DCGM_FI_DEV_GPU_UTIL", self.utilisation))
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serve() -> Iterator[FakeExporter]:
    """Serve until the block ends, on a random loopback address, because the port is always the exporter's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked += 1
            time.sleep(fake.silent)
            self.send_response(fake.status if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(fake.answer().encode())

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    fake = FakeExporter(".".join(["127", *(str(secrets.randbelow(250) + 2) for _ in range(3))]))
    with _Server((fake.host, PORT), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield fake
        server.shutdown()
