"""The system calls of namespaces and mounts that Python 3.11 has no functions for (unshare(2), setns(2), mount(2))."""

import ctypes
import os
from pathlib import Path
from typing import Final

_NEW_NAMESPACE_MOUNT: Final = 0x00020000
_NEW_NAMESPACE_USER: Final = 0x10000000
_NEW_NAMESPACE_NETWORK: Final = 0x40000000

READ_ONLY: Final = 1
REMOUNT: Final = 32
BIND: Final = 4096
RECURSIVE: Final = 16384
UNBINDABLE: Final = 1 << 17
PRIVATE: Final = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


class NamespacesUnavailableError(Exception):
    """This machine lets its users make no namespaces; the message says what to change."""


def become_root_of_a_user_namespace() -> None:
    """Give this process (which must have one thread) a user namespace where it is root, and mounts of its own.

    Nothing outside is affected: towards files and other processes it stays the user that it was.
    Raises NamespacesUnavailableError.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_NAMESPACE_USER | _NEW_NAMESPACE_MOUNT)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        mount(None, "/", flags=PRIVATE | RECURSIVE)
    except OSError as error:
        raise NamespacesUnavailableError(
            "pods that really run need user namespaces, which this machine refuses to its users"
            f" ({error.strerror}). Fix: on Ubuntu `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`,"
            " in a container allow them in its runtime"
        ) from error


def new_network_of_this_thread() -> None:
    """Give the calling thread, and what it starts, an empty network namespace. Raises OSError."""
    _call("unshare", _NEW_NAMESPACE_NETWORK)


def mount(source: str | None, target: str, kind: str | None = None, *, flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    try:
        _call("mount", *words, ctypes.c_ulong(flags), options.encode() or None)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from error


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
