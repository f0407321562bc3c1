"""The client's side of a read-only WebSocket (RFC 6455), through which Ray sends a job's output as it is written."""

import base64
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Final

_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_CHUNK_BYTES: Final = 65_536
_LONGEST_HEAD_BYTES: Final = 65_536


class WebSocket:
    """An open connection; every method raises OSError or HTTPException when it breaks."""

    def __init__(self, host: str, port: int, path: str, *, headers: Mapping[str, str], timeout: float) -> None:
        """Connect within `timeout` seconds. Raises HTTPException if the server does not switch protocols."""
        self._socket = socket.create_connection((host, port), timeout)
        self._buffer = b""
        self._message = b""
        self._closed = False
        try:
            self._open(f"{host}:{port}", path, headers)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection without the closing handshake; the server notices."""
        self._socket.close()

    def read(self, seconds: float) -> list[str] | None:
        """Return the next text messages, [] if none arrives within `seconds`, None once the server has closed."""
        deadline = time.monotonic() + seconds
        while not (messages := list(self._messages())) and not self._closed:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                break
        return None if self._closed and not messages else messages

    def _open(self, host: str, path: str, headers: Mapping[str, str]) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            *(f"{name}: {value}" for name, value in headers.items()),
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        )
        self._socket.sendall("\r\n".join((*lines, "", "")).encode())
        while b"\r\n\r\n" not in self._buffer:
            received = self._socket.recv(_CHUNK_BYTES)
            if not received or len(self._buffer) > _LONGEST_HEAD_BYTES:
                raise HTTPException("the server ended the handshake")
            self._buffer += received
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status = head.split(b"\r\n", 1)[0].decode(errors="replace")
        if " 101 " not in f"{status} ":
            raise HTTPException(f"no WebSocket: {status}")

    def _receive(self, seconds: float) -> bool:
        """Wait for more data; return False if none arrived in time."""
        self._socket.settimeout(seconds)
        try:
            received = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            return False
        self._closed |= not received
        self._buffer += received
        return True

    def _messages(self) -> Iterator[str]:
        """Yield the complete messages in the buffer; answer pings."""
        while frame := self._frame():
            first, content = frame
            operation = first & 0x0F
            if operation == _CLOSE:
                self._closed = True
            elif operation == _PING:
                self._socket.sendall(_masked(_PONG, content))
            elif operation != _PONG:  # text, or a continuation of it
                self._message += content
                if first & _FINAL:
                    message, self._message = self._message, b""
                    yield message.decode(errors="replace")

    def _frame(self) -> tuple[int, bytes] | None:
        """Take a frame out of the buffer; return its first byte and its content, or None if it is incomplete."""
        if len(self._buffer) < 2:
            return None
        length, start = self._buffer[1] & _LENGTH, 2
        if length >= 126:
            size, form = (2, ">H") if length == 126 else (8, ">Q")
            start += size
            if len(self._buffer) < start:
                return None
            [length] = struct.unpack(form, self._buffer[2:start])
        if len(self._buffer) < start + length:
            return None
        first, content = self._buffer[0], self._buffer[start : start + length]
        self._buffer = self._buffer[start + length :]
        return first, content


def _masked(operation: int, content: bytes) -> bytes:
    """Return a control frame: a client's frames are masked, and a control frame holds 125 bytes at most."""
    mask = os.urandom(4)
    hidden = bytes(byte ^ mask[place % 4] for place, byte in enumerate(content))
    return bytes((_FINAL | operation, _MASKED | len(content))) + mask + hidden
