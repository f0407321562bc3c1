"""Runs the AWS CLI of a layer: loaded once, then one forked process for each call of `aws` (aws_client.py).

Usage: python -I -S aws_server.py FOLDER SOCKET

FOLDER is the layer's `awscli`, SOCKET the file descriptor of the listening socket. A call finds in its process what
the layer's own program would: its arguments, its environment, its working directory and its standard streams.
"""

import atexit
import functools
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

_SERVICES = ("eks", "s3", "sts")
"""What CDK's handlers call, or sign tokens for."""


def main(folder: str, listener_number: str) -> None:
    """Load the CLI, then serve calls for ever."""
    sys.path[0] = folder
    _load()
    paths = _below(_home())
    gc.freeze()
    call = _next_call(socket.socket(fileno=int(listener_number)))
    # From here on this is the process of one call.
    _become(call)
    for variables, name, rest in paths:
        variables[name] = _home() + rest
    importlib.reload(sys.modules["awscli"])  # reads and sets environment variables
    program = f"{folder}/aws.layer"
    sys.argv[0] = program
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _exit(end.code or 0)
        raise


def _load() -> None:
    """Load the CLI's modules, and what it reads of its own files."""
    driver = importlib.import_module("awscli.clidriver")
    sessions: Any = importlib.import_module("botocore.session")
    # Each session makes a loader, which searches and reads the descriptions of services: more than half of a call.
    # One for each data path serves all sessions; a call with another AWS_DATA_PATH makes its own.
    sessions.create_loader = functools.cache(sessions.create_loader)
    # This loads the plug-ins, too. The driver and its session are thrown away: each call makes its own.
    session = driver.create_clidriver().session
    for service in _SERVICES:
        session.create_client(service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none")  # noqa: S106 - no call is signed


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 - as the CLI's modules do


def _below(home: str) -> list[tuple[dict[str, Any], str, str]]:
    """Return the variables of modules that were set to a path below this home when they were loaded."""
    return [
        (vars(module), name, value[len(home) :])
        for module in [*sys.modules.values()]
        for name, value in [*vars(module).items()]
        if isinstance(value, str) and value.startswith(f"{home}/")
    ]


def _next_call(listener: socket.socket) -> socket.socket:
    """Serve calls; return only in a forked process, with the connection of its call."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    connections: dict[int, tuple[int, socket.socket]] = {}
    """For each running call, by its process's descriptor: process id and connection."""
    while True:
        for ready, _ in poll.poll():
            if ready == listener.fileno():
                connection, _ = listener.accept()
                pid = os.fork()
                if pid == 0:
                    listener.close()
                    return connection
                process = os.pidfd_open(pid)
                connections[process] = pid, connection
                poll.register(process, select.POLLIN)
                poll.register(connection, 0)  # a hang-up is reported all the same
            elif ready in connections:
                pid, connection = connections.pop(ready)
                _, status = os.waitpid(pid, 0)
                with suppress(OSError):  # the caller has gone
                    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
                for done in (ready, connection.fileno()):
                    with suppress(KeyError):
                        poll.unregister(done)
                os.close(ready)
                connection.close()
            else:
                poll.unregister(ready)
                callers = [pid for pid, connection in connections.values() if connection.fileno() == ready]
                for pid in callers:
                    os.kill(pid, signal.SIGKILL)


def _become(connection: socket.socket) -> None:
    """Make this process what the caller's would be."""
    with connection:
        head, streams, _, _ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as body:
            folder, count, *rest = body.read(int.from_bytes(head, "big")).split(b"\0")
    arguments, variables = rest[: int(count)], rest[int(count) :]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    time.tzset()
    os.chdir(folder)
    sys.argv[1:] = map(os.fsdecode, arguments)


def _exit(code: int) -> None:
    """End this process without taking down what it was forked with, which takes as long as the call itself."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
