"""Credentials that run out, before real servers: a catalog that vends them, a store that takes no others.

    client ──▶ VendingCatalog ──▶ Iceberg's REST server        answers with keys that live for a few seconds
    client ──▶ Gate ──▶ moto                                    lets only a key through that lives now
    client ──▶ Denying ──▶ any store                            denies some requests, and talks too much
    client ──▶ GuardedCatalog ──▶ Iceberg's REST server         takes one user and password alone

Iceberg's own server vends its own login, which lives for ever, and moto takes any key: what neither of them
can do stands here, and nothing else. Both count what they see.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HOP = {"connection", "content-length", "host", "transfer-encoding", "content-encoding", "accept-encoding"}
_KEY = re.compile(r"Credential=([^/]+)/")


@dataclass
class Keys:
    """Keys that live for a while."""

    life_seconds: float
    born: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def vend(self, endpoint: str, region: str) -> dict[str, str]:
        """A new key, as a catalog's config."""
        with self._lock:
            self.born.append(time.time())
            number = len(self.born) - 1
        return {
            "s3.access-key-id": f"vended-{number}",
            "s3.secret-access-key": f"canary-of-a-vended-secret-{number}",
            "s3.session-token": f"canary-of-a-vended-token-{number}",
            "s3.session-token-expires-at-ms": str(int((self.born[number] + self.life_seconds) * 1000)),
            "s3.endpoint": endpoint,
            "s3.region": region,
        }

    def lives(self, key: str) -> bool:
        kind, _, number = key.partition("-")
        if kind != "vended" or int(number) >= len(self.born):
            return False
        return time.time() < self.born[int(number)] + self.life_seconds

    def wait_for_death(self, number: int) -> None:
        """Until a key that was vended is no good any more."""
        while self.lives(f"vended-{number}"):
            time.sleep(max(0.01, self.born[number] + self.life_seconds - time.time()))


@dataclass
class Seen:
    """What a front saw."""

    uri: str = ""
    keys: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def gate(
    upstream: str, keys: Keys, before_reply: Callable[[str, str], None] = lambda _, __: None
) -> Iterator[Seen]:
    """A store that takes only keys that live. `before_reply` is told the key and the path of each request
    that was let through, and may take its time."""
    seen = Seen()

    class Handler(_Front):
        target = upstream

        def answer(self) -> None:
            found = _KEY.search(self.headers.get("Authorization", ""))
            key = "" if found is None else found[1]
            seen.keys.append(key)
            seen.paths.append(self.path)
            if not keys.lives(key):
                seen.refused.append(key)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
                self.reply(403, {"Content-Type": "application/xml"}, body)
                return
            answer = self.forward()
            before_reply(key, self.path)
            self.reply(*answer)

    with _serving(Handler) as seen.uri:
        yield seen


@contextmanager
def denying(upstream: str, denied: str, secret: str) -> Iterator[Seen]:
    """A store that denies to write below a path, and says the client's own secret back to it: servers do
    that with tokens."""
    seen = Seen()

    class Handler(_Front):
        target = upstream
        keeps_host = True

        def answer(self) -> None:
            if denied not in self.path or self.command not in ("PUT", "POST"):
                self.reply(*self.forward())
                return
            seen.refused.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = f"<Error><Code>AccessDenied</Code><Message>Not with {secret}.</Message></Error>".encode()
            self.reply(403, {"Content-Type": "application/xml"}, body)

    with _serving(Handler) as seen.uri:
        yield seen


@contextmanager
def vending_catalog(upstream: str, keys: Keys, store: str, *, endpoint: bool = True) -> Iterator[Seen]:
    """A catalog that vends a key with each table; with `endpoint` it names one for new keys."""
    seen = Seen()
    locations: dict[str, str] = {}

    class Handler(_Front):
        target = upstream

        def answer(self) -> None:
            seen.paths.append(self.path)
            seen.authorizations.append(self.headers.get("Authorization", ""))
            if self.path.partition("?")[0].endswith("/credentials"):
                config = keys.vend(store, "us-east-1")
                # For the table alone, as servers do that mean it.
                prefix = locations[self.path.partition("?")[0].removesuffix("/credentials")]
                body = {"storage-credentials": [{"prefix": prefix, "config": config}]}
                self.reply(200, {"Content-Type": "application/json"}, json.dumps(body).encode())
                return
            status, headers, content = self.forward()
            if status == 200 and b'"metadata-location"' in content[:2000] and self.command != "HEAD":
                answer: dict[str, Any] = json.loads(content)
                config = keys.vend(store, "us-east-1")
                if endpoint:
                    config["client.refresh-credentials-endpoint"] = (
                        f"{self.path.partition('?')[0]}/credentials"
                    )
                locations[self.path.partition("?")[0]] = answer["metadata"]["location"]
                answer["config"] = {**answer.get("config", {}), **config}
                content = json.dumps(answer).encode()
            self.reply(status, headers, content)

    with _serving(Handler) as seen.uri:
        yield seen


@contextmanager
def guarded_catalog(upstream: str, user: str, password: str) -> Iterator[Seen]:
    """A catalog that takes one login alone, by basic authentication: Iceberg's own server asks nobody."""
    seen = Seen()
    login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    class Handler(_Front):
        target = upstream

        def answer(self) -> None:
            seen.authorizations.append(self.headers.get("Authorization", ""))
            if seen.authorizations[-1] == login:
                self.reply(*self.forward())
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            error = {"message": "wrong login", "type": "NotAuthorizedException", "code": 401}
            body = json.dumps({"error": error}).encode()
            self.reply(401, {"Content-Type": "application/json"}, body)

    with _serving(Handler) as seen.uri:
        yield seen


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target = ""
    keeps_host = False
    """Where the upstream checks signatures: those are made over the name by which the client called."""

    def answer(self) -> None:
        raise NotImplementedError

    def forward(self) -> tuple[int, dict[str, str], bytes]:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        if self.keeps_host:
            headers["Host"] = self.headers["Host"]
        if body is not None and "Content-Type" not in self.headers:
            headers["Content-Type"] = "application/octet-stream"  # or urllib says that it is a form
        request = urllib.request.Request(
            self.target + self.path, data=body, headers=headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, dict(answer.headers.items()), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers.items()), error.read()

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        sizes = next((value for name, value in headers.items() if name.lower() == "content-length"), None)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", sizes if sizes and self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
