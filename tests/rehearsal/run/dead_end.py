"""A program that makes a dead end of its own network namespace, and writes down who tries to get out.

Started as `unshare --map-root-user --net python dead_end.py REPORT`. Everything that is not for localhost goes to a
network interface behind which nobody is; each destination becomes a line of REPORT. It prints `ready`, and ends with
its standard input.
"""

import contextlib
import fcntl
import ipaddress
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_INTERFACE: Final = "dead-end"
# From linux/if_tun.h.
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
# Protocol numbers (IANA), and the port of name servers.
_TCP: Final = 6
_UDP: Final = 17
_ICMP6: Final = 58
_HOP_BY_HOP: Final = 0
_DNS: Final = 53

# Networks kept for documentation (RFC 5737, RFC 3849): nobody has these addresses.
_SET_UP: Final = (
    "link set lo up",
    f"address add 192.0.2.1/24 dev {_INTERFACE}",
    f"link set {_INTERFACE} up",
    f"route add default dev {_INTERFACE}",
)
_SET_UP_IPV6: Final = (
    f"-6 address add 2001:db8::1/64 dev {_INTERFACE} nodad",
    f"-6 route add default dev {_INTERFACE}",
)


def main(report: Path) -> int:
    """Record until the standard input ends; 1 when the system does not let it make the dead end."""
    try:
        tunnel = make_interface()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"forbidden: {error}")
        return 1
    resolvers = {resolver.fileno(): resolver for address in local_resolvers() for resolver in listen(address)}
    print("ready", flush=True)
    with report.open("w", buffering=1) as lines:
        while True:
            ready, _, _ = select.select([sys.stdin.fileno(), tunnel, *resolvers], [], [])
            if sys.stdin.fileno() in ready:
                return 0
            for source in ready:
                if source == tunnel:
                    seen = destination(os.read(tunnel, 65536))
                else:
                    seen = f"DNS {queried(resolvers[source].recv(4096))}"
                if seen:
                    lines.write(f"{seen}\n")


def make_interface() -> int:
    """Make the way out; return the file from which what is sent there is read."""
    tunnel = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tunnel, _TUNSETIFF, struct.pack("16sH", _INTERFACE.encode(), _IFF_TUN | _IFF_NO_PI))
    for line in _SET_UP:
        ip(line, check=True)
    for line in _SET_UP_IPV6:
        ip(line, check=False)  # a kernel may have no IPv6
    return tunnel


def ip(line: str, *, check: bool) -> None:
    """Run iproute2's `ip`."""
    argv = ["ip", *line.split()]
    subprocess.run(argv, check=check, capture_output=True)


def destination(packet: bytes) -> str | None:
    """Where an IP packet goes, like `tcp 203.0.113.7:443`; None for the kernel's own talk with its neighbours."""
    if packet[0] >> 4 == 4:
        header, protocol, address = (packet[0] & 15) * 4, packet[9], ipaddress.ip_address(packet[16:20])
    else:
        header, protocol, address = 40, packet[6], ipaddress.ip_address(packet[24:40])
    if address.is_multicast or protocol in (_ICMP6, _HOP_BY_HOP):
        return None
    if protocol not in (_TCP, _UDP):
        return f"protocol {protocol} {address}"
    port = int.from_bytes(packet[header + 2 : header + 4], "big")
    name = f" (DNS {queried(packet[header + 8 :])})" if protocol == _UDP and port == _DNS else ""
    return f"{'tcp' if protocol == _TCP else 'udp'} {address}:{port}{name}"


def queried(message: bytes) -> str:
    """The name that a DNS query asks for (RFC 1035, 4.1.2)."""
    labels, position = [], 12
    while position < len(message) and (length := message[position]):
        labels.append(message[position + 1 : position + 1 + length].decode(errors="replace"))
        position += 1 + length
    return ".".join(labels)


def local_resolvers() -> list[str]:
    """Name servers on localhost, such as systemd's: nobody would answer there, and nobody would notice the question."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    servers = [line.split()[1] for line in lines if line.startswith("nameserver ")]
    return [server for server in servers if ipaddress.ip_address(server.partition("%")[0]).is_loopback]


def listen(address: str) -> Iterator[socket.socket]:
    """A socket where a name server would listen; none when another one took the address."""
    resolver = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        resolver.bind((address, _DNS))
        yield resolver


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
