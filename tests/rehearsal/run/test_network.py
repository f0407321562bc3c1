"""The proof itself can fail: what leaves is seen, both ways."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rehearsal.run.network import ForbiddenError, Watch, dead_end
from tests.support.waiting import wait_until

OUT = "203.0.113.7"
"""Of TEST-NET-3 (RFC 5737): nobody has it."""

CALL_OUT = """
import socket, sys
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.sendto(bytes(12) + b"\\x03sts\\x09amazonaws\\x03com\\x00\\x00\\x01\\x00\\x01", ("203.0.113.53", 53))
out = socket.socket()
out.settimeout(1)
try:
    out.connect(("203.0.113.7", 443))
except OSError as error:
    print(error)
"""
HOLD_A_SOCKET = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.connect((sys.argv[1], int(sys.argv[2])))
print("held", flush=True)
sys.stdin.read()
"""
TALK_TO_ONESELF = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    client = socket.create_connection(server.getsockname())
    server.accept()[0].close()
    print("spoken to", client.getpeername()[0])
"""


def test_dead_end_sees_who_tries_to_leave_and_what_name_is_asked_for(tmp_path: Path) -> None:
    try:
        with dead_end(tmp_path / "leaving") as network:
            argv = [*network.prefix, sys.executable, "-c"]
            assert "spoken to 127.0.0.1" in subprocess.check_output([*argv, TALK_TO_ONESELF], text=True)
            assert network.leaving() == []
            subprocess.run([*argv, CALL_OUT], check=True)
            assert network.leaving() == ["tcp 203.0.113.7:443", "udp 203.0.113.53:53 (DNS sts.amazonaws.com)"]
    except ForbiddenError as forbidden:
        pytest.skip(f"no network namespace here: {forbidden}")


def test_watch_sees_whom_a_process_of_the_directory_speaks_to_and_no_other(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    watch = Watch(own)
    try:
        with (
            holding(own, OUT, "9001"),
            holding(other, OUT, "9002"),
            holding(own, "127.0.0.1", "9003"),
            # Who sees this one has looked at all of them.
            holding(own, OUT, "9004"),
        ):
            wait_until(lambda: f"udp {OUT}:9004" in watch.leaving(), "the last socket")
        assert watch.leaving() == [f"udp {OUT}:9001", f"udp {OUT}:9004"]
    finally:
        watch.stop()


@contextmanager
def holding(directory: Path, address: str, port: str) -> Iterator[None]:
    """A process in the directory that holds a socket to this peer."""
    argv = [sys.executable, "-c", HOLD_A_SOCKET, address, port]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=directory, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n", "this machine has no route to anywhere"
        yield
        process.communicate()
