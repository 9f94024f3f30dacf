"""A server whose answers a test writes, on loopback, with or without TLS. It keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))

    @property
    def login(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(frozen=True)
class Said:
    """One answer. Without a status the connection is closed instead."""

    status: int | None = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Asked], Said]


@dataclass
class Scripted:
    uri: str
    asked: list[Asked] = field(default_factory=list)

    def asked_for(self, end: str) -> list[Asked]:
        return [one for one in self.asked if urlsplit(one.path).path.endswith(end)]


@contextmanager
def scripted(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """A server that answers as the function says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            one = Asked(self.command, self.path, headers, body)
            server.asked.append(one)
            said = answer(one)
            if said.status is None:
                self.close_connection = True
                return
            content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": "application/json", **said.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_POST = do_HEAD = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    if tls is not None:
        listening.socket = tls.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if tls is None else "https"
    server = Scripted(f"{scheme}://127.0.0.1:{listening.server_address[1]}")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
