"""The proxy: stands in front of a real REST catalog and lies to its clients, as a schedule says.

    run ──request──▶ proxy ──(applied, dropped, late, twice)──▶ catalog server
        ◀──answer── (true, cut, made up, older, none at all) ◀──answer──

Clients are not told by their requests from one another; every request has a number of its own and one among
those of its kind, and a line in the log. Tokens are the proxy's own: one that was answered with 401 stays
refused, so that only a client that gets itself a new one goes on. `drain` waits for requests that are held
back, because one that is applied after the checks were made would be a change behind their back.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from tests.faults.listener import Answer, Damage, Listener
from tests.faults.schedule import NONE, Act, Fault, Kind, Reply, Schedule

_HOP: Final = frozenset({"connection", "content-length", "host", "transfer-encoding", "accept-encoding"})
_REMEMBERED = 8
_DAMAGES: Final = {Reply.CUT: Damage.CUT, Reply.SHORT: Damage.SHORT}
_UPSTREAM_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    number: int
    """Among all."""
    nth: int
    """Among those of its kind."""
    kind: Kind
    method: str
    path: str
    body: bytes
    headers: dict[str, str]

    @property
    def place(self) -> str:
        """The path, without what is asked about it."""
        return urlsplit(self.path).path

    @property
    def who(self) -> str:
        return self.headers.get("X-Run", "-")


class Proxy:
    """A proxy that listens on loopback until it is closed."""

    def __init__(
        self, upstream: str, schedule: Schedule, timeout_ms: int, *, own_tokens: bool = True
    ) -> None:
        """`timeout_ms`: the patience of the clients; what is to be late or silent waits longer."""
        self._own_tokens = own_tokens
        self._upstream = urlsplit(upstream)
        self._schedule = schedule
        self.patience_s = timeout_ms / 1000 * 1.5
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._busy = 0
        self._numbers: Counter[Kind | None] = Counter()
        self._older: dict[str, deque[bytes]] = {}
        self._tokens = 0
        self._taken: set[str | None] = set()
        """Tokens that were good."""
        self._refused: set[str] = set()
        self._closing = threading.Event()
        self.faults: Counter[tuple[Kind, Fault]] = Counter()
        self.log: list[str] = []
        self.revoked: int | None = None
        """A status that every request is answered with, because the login has lost its rights: 401 or 403."""
        self.before_forward: Callable[[Request], None] = lambda _: None
        """Called with a request that is about to reach the server."""
        self._server = Listener(self._serve)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self._upstream.path.rstrip('/')}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def requests(self) -> int:
        return self._numbers[None]

    def drain(self, seconds: float = 30) -> None:
        """Wait until no request is on its way."""
        with self._idle:
            if not self._idle.wait_for(lambda: self._busy == 0, seconds):
                raise TimeoutError(f"{self._busy} requests are on their way after {seconds} s")

    # ---------------------------------------------------------------- one request

    def _serve(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[Answer | None, Damage]:
        request = self._arrive(method, path, headers, body)
        try:
            fault = self._decide(request)
            return self._answer(request, fault), _DAMAGES.get(fault.reply, Damage.NONE)
        finally:
            self._leave()

    def _arrive(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Request:
        """Number a request."""
        kind = _kind_of(method, urlsplit(path).path)
        with self._lock:
            self._busy += 1
            self._numbers[None] += 1
            self._numbers[kind] += 1
            return Request(self._numbers[None], self._numbers[kind], kind, method, path, body, headers)

    def _leave(self) -> None:
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def _decide(self, request: Request) -> Fault:
        """The fault that a request meets."""
        if self._is_refused(request):
            return Fault(Act.DROP, Reply.EXPIRED)
        fault = self._schedule.fault(request.kind, request.nth)
        # A token that is refused before it ever was good tells a client to stop.
        if fault.reply is Reply.EXPIRED and request.headers.get("Authorization") not in self._taken:
            return NONE
        if fault.reply is Reply.OLDER and not self._older.get(request.place):
            return NONE
        with self._lock:
            if fault != NONE:
                self.faults[request.kind, fault] += 1
            if fault.reply is Reply.EXPIRED:
                # A server's own new token may be the old one, letter by letter: that one is good again.
                token = request.headers["Authorization"]
                if self._own_tokens:
                    self._refused.add(token)
                else:
                    self._taken.discard(token)
        return fault

    def _answer(self, request: Request, fault: Fault) -> Answer | None:
        """Do with the request what the fault says. `None`: the client hears nothing but the end."""
        if self.revoked is not None:
            return self._deny(request, self.revoked)
        if request.kind is Kind.TOKEN and self._own_tokens:
            return self._new_token()
        true: Answer | None = None
        if fault.act in (Act.APPLY, Act.APPLY_TWICE):
            for _ in range(2 if fault.act is Act.APPLY_TWICE else 1):
                true = self._forward(request)
        if fault.reply is Reply.SILENCE:
            self._closing.wait(self.patience_s)
        if fault.act is Act.APPLY_LATE:
            true = self._forward(request)
        self._note(request, fault, true)
        return self._reply(request, fault, true)

    def _reply(self, request: Request, fault: Fault, true: Answer | None) -> Answer | None:
        match fault.reply:
            case Reply.TRUE | Reply.CUT | Reply.SHORT:
                return true
            case Reply.RESET | Reply.SILENCE:
                return None
            case Reply.OLDER:
                older = list(self._older[request.place])
                return Answer(200, self._schedule.random(request.kind, request.nth + 1).choice(older))
            case Reply.EXPIRED:
                return _error(401, "NotAuthorizedException")
            case _:
                assert fault.reply.status is not None
                return _error(fault.reply.status, "MadeUpException")

    def _forward(self, request: Request) -> Answer | None:
        """The server's own answer; `None` where there is no server that answers."""
        self.before_forward(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        assert self._upstream.hostname is not None
        connection = HTTPConnection(self._upstream.hostname, self._upstream.port, timeout=_UPSTREAM_SECONDS)
        with closing(connection):
            try:
                connection.request(request.method, request.path, request.body or None, headers)
                response = connection.getresponse()
                answer = Answer(response.status, response.read(), response.headers.get_content_type())
            except (OSError, HTTPException) as error:
                with self._lock:
                    self.log.append(f"{request.number} no server: {type(error).__name__}")
                return None
        self._remember(request, answer)
        return answer

    def _remember(self, request: Request, answer: Answer) -> None:
        """Tables as they were, to be shown when they are no longer so."""
        if answer.status != 200 or request.kind not in (Kind.LOAD, Kind.COMMIT):
            return
        shown = answer.body
        if request.kind is Kind.COMMIT:
            shown = shown.rstrip()[:-1] + b', "config": {}}'
        with self._lock:
            self._older.setdefault(request.place, deque(maxlen=_REMEMBERED)).append(shown)

    def _deny(self, request: Request, status: int) -> Answer:
        with self._lock:
            self.log.append(f"{request.number} {request.kind.value} of {request.who}: denied with {status}")
        if request.kind is not Kind.TOKEN:
            return _error(status, "ForbiddenException" if status == 403 else "NotAuthorizedException")
        return Answer(401, b'{"error": "invalid_client", "error_description": "the secret was changed"}')

    def _new_token(self) -> Answer:
        with self._lock:
            self._tokens += 1
            token = {"access_token": f"token-{self._tokens}", "token_type": "bearer", "expires_in": 3600}
        return Answer(200, json.dumps(token).encode())

    def _is_refused(self, request: Request) -> bool:
        return request.kind is not Kind.TOKEN and request.headers.get("Authorization") in self._refused

    def _note(self, request: Request, fault: Fault, true: Answer | None) -> None:
        status = "-" if true is None else true.status
        line = (
            f"{request.number} {request.kind.value} {request.nth} of {request.who}: {fault.name} "
            f"(server: {status}) {request.method} {request.path}"
        )
        with self._lock:
            self.log.append(line)
            if fault.reply is Reply.TRUE:
                self._taken.add(request.headers.get("Authorization"))


def _kind_of(method: str, path: str) -> Kind:
    parts = path.rstrip("/").split("/")
    if parts[-2:] == ["oauth", "tokens"]:
        return Kind.TOKEN
    if parts[-2:-1] == ["tables"]:
        return {"POST": Kind.COMMIT, "GET": Kind.LOAD}.get(method, Kind.OTHER)
    if method == "POST" and parts[-1] == "tables":
        return Kind.CREATE
    return Kind.OTHER


def _error(status: int, kind: str) -> Answer:
    said = {"error": {"message": "made up by the proxy", "type": kind, "code": status}}
    return Answer(status, json.dumps(said).encode())
