"""Try to open one TCP connection; the exit code is the result. `ops isolation-check` runs this file's text in a pod.

It reads HOST, PORT and SETTLE, and first waits SETTLE seconds: a network policy applies to a new pod shortly after the
pod's start. With TOKEN, what listens must refuse a request without a token. It uses the standard library only, because
it runs in the controllers' plain Python image.
"""

import os
import socket
import sys
import time

CONNECTED, TIMED_OUT, REFUSED, NO_SUCH_NAME, NO_WAY, WITHOUT_TOKEN = 0, 10, 11, 12, 13, 14
# A head that wants a token answers 401 without one (ray 2.60.0: _private/authentication/http_token_authentication.py).
_REQUEST = b"GET /api/version HTTP/1.0\r\nUser-Agent: isolation-check\r\n\r\n"
_REFUSAL = b" 401 "
_TRIES = 3
_TIMEOUT_SECONDS = 3.0


def attempt(host: str, port: int, *, token: bool = False) -> int:
    """Return the exit code for one attempt; with `token`, whether a request without one is refused."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
            if not token:
                return CONNECTED
            connection.sendall(_REQUEST)
            return CONNECTED if _REFUSAL in connection.recv(64).partition(b"\r\n")[0] else WITHOUT_TOKEN
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
    host, port, token = os.environ["HOST"], int(os.environ["PORT"]), bool(os.environ.get("TOKEN"))
    time.sleep(float(os.environ["SETTLE"]))
    for _ in range(_TRIES - 1):
        if attempt(host, port, token=token) == CONNECTED:
            return CONNECTED
        time.sleep(1)
    return attempt(host, port, token=token)


if __name__ == "__main__":
    sys.exit(main())
