"""What tests read of processes and their sockets in /proc."""

import contextlib
import ipaddress
import os
from pathlib import Path

from embedded_account.machine.processes import is_alive


def processes_below(directory: Path) -> dict[int, str]:
    """Command lines, by pid, of the processes whose command, variables or working directory name `directory`."""
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
            continue  # ended while it was looked at, or somebody else's
    return {pid: command for pid, command in found.items() if is_alive(pid)}


def peer(field: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Address and port of a field of /proc/net/tcp: words of four bytes, in the machine's own order."""
    words, _, port = field.partition(":")
    raw = b"".join(bytes.fromhex(words[start : start + 8])[::-1] for start in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address, int(port, 16)


def socket_inodes(pid: int) -> set[int]:
    """Inodes of the sockets that a process holds."""
    inodes = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
    return inodes
