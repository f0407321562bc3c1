"""Try to open one TCP connection; the exit code is the result. `ops isolation-check` runs this file's text in a pod.

It reads HOST, PORT and SETTLE, and first waits SETTLE seconds: a network policy applies to a new pod shortly after the
pod's start. It uses the standard library only, because it runs in the controllers' plain Python image.
"""

import os
import socket
import sys
import time

CONNECTED, TIMED_OUT, REFUSED, NO_SUCH_NAME, NO_WAY = 0, 10, 11, 12, 13
_TRIES = 3
_TIMEOUT_SECONDS = 3.0


def attempt(host: str, port: int) -> int:
    """Return the exit code for one attempt."""
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
    """Try up to three times; return CONNECTED at the first success, else the last attempt's exit code."""
    host, port = os.environ["HOST"], int(os.environ["PORT"])
    time.sleep(float(os.environ["SETTLE"]))
    for _ in range(_TRIES - 1):
        if attempt(host, port) == CONNECTED:
            return CONNECTED
        time.sleep(1)
    return attempt(host, port)


if __name__ == "__main__":
    sys.exit(main())
