#!/usr/bin/env -S python3 -I -S
"""Stands in for a layer's `aws` (aws_cli.py): has the call carried out by the process that has that CLI loaded.

The call gets this process's arguments, environment, working directory and standard streams. Where no such process
listens, the layer's own program runs. Imports are few and low, because this program starts hundreds of times.
"""

import _socket
import os
import sys

_FOLDER = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib takes longer than the rest


def main() -> int:
    """Have the call carried out; return its exit code."""
    server = _socket.socket(_socket.AF_UNIX)
    place = os.open(_FOLDER, os.O_PATH)
    try:
        # The address of a socket is at most 108 bytes long; a folder's path may be longer.
        server.connect(f"/proc/self/fd/{place}/aws.socket")
    except OSError:
        os.execvp("python3", ["python3", f"{_FOLDER}/aws.layer", *sys.argv[1:]])  # noqa: S606, S607 - as the layer's line says
    arguments = [os.fsencode(argument) for argument in sys.argv[1:]]
    variables = [name + b"=" + value for name, value in os.environb.items()]
    folder = os.getcwdb()  # noqa: PTH109
    call = b"\0".join([folder, b"%d" % len(arguments), *arguments, *variables])
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg([len(call).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    server.sendall(call)
    answer = server.recv(4)
    if not answer:
        sys.stderr.write("aws: the process that runs the AWS CLI has ended\n")
        return 255
    exit_code = int.from_bytes(answer, "big", signed=True)
    if exit_code < 0:
        os.kill(os.getpid(), -exit_code)
    return exit_code


sys.exit(main())
