"""Try to open one TCP connection; the exit code says what came of it. `ops isolation-check` runs this text in a pod.

It reads HOST, PORT and SETTLE, and waits SETTLE seconds first: a network policy reaches a new pod a moment after its
start. Standard library only: it runs in the controllers' plain Python image.
"""

import os
import socket
import sys
import time

CONNECTED, TIMED_OUT, REFUSED, NO_SUCH_NAME, NO_WAY = 0, 10, 11, 12, 13
_TRIES = 3
_TIMEOUT_SECONDS = 3.0


def attempt(host: str, port: int) -> int:
    """Return what came of one try."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS):
            return CONNECTED
    except socket.gaierror:
        return NO_SUCH_NAME
    except TimeoutError:
        return TIMED_OUT
    except ConnectionRefusedError:
        return REFUSED
    except OSError:
        return NO_WAY


def main() -> int:
    """Return the first success, or what came of the last try."""
    host, port = os.environ["HOST"], int(os.environ["PORT"])
    time.sleep(float(os.environ["SETTLE"]))
    for _ in range(_TRIES - 1):
        if attempt(host, port) == CONNECTED:
            return CONNECTED
        time.sleep(1)
    return attempt(host, port)


if __name__ == "__main__":
    sys.exit(main())
