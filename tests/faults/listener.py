"""The proxy's side of HTTP: requests are read here, and answers written, cut, or replaced by a reset.

Not here: what becomes of a request, and what it is answered (proxy.py).
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, BytesIO
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes
    content_type: str = "application/json"


class Damage(Enum):
    """What becomes of an answer on its way."""

    NONE = "none"
    CUT = "the body ends too early"
    SHORT = "fewer bytes than were promised"


Serve = Callable[[str, str, dict[str, str], bytes], tuple[Answer | None, Damage]]
"""From method, path, headers and body to an answer; `None` is a reset. """


class Listener(ThreadingHTTPServer):
    """Listens on a free port of loopback."""

    daemon_threads = True

    def __init__(self, serve: Serve) -> None:
        super().__init__(("127.0.0.1", 0), _handler_of(serve))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a defect of the proxy."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler_of(serve: Serve) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # An answer is written in one piece; without this a second piece waits for an acknowledgement.
        disable_nagle_algorithm = True
        wbufsize = -1

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer, damage = serve(self.command, self.path, dict(self.headers.items()), body)
            if answer is None:
                self._reset()
            else:
                self._write(answer, damage)

        do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = _serve

        def _write(self, answer: Answer, damage: Damage) -> None:
            body = answer.body
            if damage is Damage.CUT:
                body = body[: len(body) // 2]
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body[: len(body) // 2] if damage is Damage.SHORT else body)
                self.wfile.flush()
            except OSError:
                self.close_connection = True  # the client has given up
            if damage is Damage.SHORT:
                self._end()

        def _reset(self) -> None:
            """The connection is gone, not ended: a linger of 0 sends a reset."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._end()

        def _end(self) -> None:
            self.close_connection = True
            for stream in (self.wfile, self.rfile, self.connection):
                with suppress(OSError):
                    stream.close()  # the last one that closes ends the connection
            self.rfile, self.wfile = BufferedReader(BytesIO()), BytesIO()  # the server lets go of them too

        def log_message(self, format: str, *_: Any) -> None:
            """Nothing on stderr: the proxy has a log of its own."""

    return Handler
