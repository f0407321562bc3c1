"""Connect pods: a bridge in its own network namespace, with the API server and AWS's APIs at addresses in it."""

import asyncio
import functools
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from embedded_account.kubernetes.pods.sandbox import kernel

_BRIDGE: Final = "pods"
GATEWAY: Final = "10.245.255.254"
"""Where pods find AWS's APIs, at the account's own port."""
_PREFIX: Final = 16
# Without an address of its own a bridge takes the lowest of its interfaces, which changes as pods come and go: other
# pods then send to the old one until their kernel asks again, for up to two minutes.
_ETHERNET: Final = "02:00:00:00:00:01"

Result = TypeVar("Result")


class PodNetwork:
    """A network of pods that lives as long as this process. It connects pods to each other and to two APIs only."""

    def __init__(self, *, service_ip: str, api_port: int, aws_port: int | None) -> None:
        """Create the network. `service_ip` is the address of the `kubernetes` service.

        Connections to it go to the API server at `api_port` of this machine, and those to `GATEWAY` at `aws_port` go to
        the account at that port. Raises OSError or CalledProcessError if the network cannot be created.
        """
        # A network namespace belongs to a thread: what this one runs or starts is inside.
        self._inside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pod-network")
        self._inside.submit(kernel.new_network_of_this_thread).result()
        for command in (
            "link set lo up",
            f"link add {_BRIDGE} address {_ETHERNET} type bridge",
            f"address add {GATEWAY}/{_PREFIX} dev {_BRIDGE}",
            f"address add {service_ip}/32 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        ):
            self.run(functools.partial(_ip, *command.split()))
        self._relay_to(api_port, (service_ip, 443))
        if aws_port:
            self._relay_to(aws_port, (GATEWAY, aws_port))
        self._wired = 0

    def _relay_to(self, port: int, address: tuple[str, int]) -> None:
        listening = self.run(lambda: socket.create_server(address))
        threading.Thread(target=_relay, args=(listening, port), name=f"relay-{port}", daemon=True).start()

    def run(self, task: Callable[[], Result]) -> Result:
        """Run `task` inside the network, where sockets reach pods; return its result."""
        return self._inside.submit(task).result()

    def connect(self, pid: int, address: str) -> None:
        """Add an interface with an address to the network namespace of a process. Raises CalledProcessError."""
        self._wired += 1
        outer = f"pod{self._wired}"
        enter = ("nsenter", f"--target={pid}", "--net", "--")
        self.run(lambda: _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(pid)))
        self.run(lambda: _ip("link", "set", outer, "master", _BRIDGE, "up"))
        _ip("link", "set", "lo", "up", enter=enter)
        _ip("address", "add", f"{address}/{_PREFIX}", "dev", "eth0", enter=enter)
        _ip("link", "set", "eth0", "up", enter=enter)
        _ip("route", "add", "default", "via", GATEWAY, enter=enter)


def _ip(*words: str, enter: tuple[str, ...] = ()) -> None:
    subprocess.run([*enter, "ip", *words], check=True, capture_output=True, text=True)


def _relay(listening: socket.socket, port: int) -> None:
    """Pass connections on to a port of this machine, forever."""

    async def serve() -> None:
        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                there, here = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(_copy(reader, here), _copy(there, writer))

        server = await asyncio.start_server(passed_on, sock=listening)
        await server.serve_forever()

    asyncio.run(serve())


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the other end closed: close this one
    finally:
        writer.close()
