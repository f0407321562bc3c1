"""Read processes and their sockets from /proc for tests."""

import contextlib
import ipaddress
import os
from pathlib import Path

from embedded_account.machine.processes import is_alive


def processes_below(directory: Path) -> dict[int, str]:
    """Return the processes whose command, environment or working directory contains `directory`.

    The result maps the pid to the command line; this process is excluded.
    """
    word = os.fsencode(directory)
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if word in command + (entry / "environ").read_bytes() + os.fsencode((entry / "cwd").readlink()):
                found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # The process ended meanwhile or belongs to another user.
    return {pid: command for pid, command in found.items() if is_alive(pid)}


def peer(field: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Parse the address and port in a field of /proc/net/tcp: words of four bytes in the machine's byte order."""
    words, _, port = field.partition(":")
    raw = b"".join(bytes.fromhex(words[start : start + 8])[::-1] for start in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address, int(port, 16)


def socket_inodes(pid: int) -> set[int]:
    """Return the inodes of the sockets that a process has open."""
    inodes = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
    return inodes
