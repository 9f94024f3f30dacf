"""A server that speaks as much of PostgreSQL's protocol as a subscription to Materialize needs.

What it does is written down in Materialize's documentation of SUBSCRIBE, DECLARE and FETCH:

- a relation has a history of (time, diff, row); it is complete up to `upper` and readable from `since` on;
- SUBSCRIBE … WITH (PROGRESS, SNAPSHOT = …) [AS OF a UP TO b]: the first message is the progress at its AS
  OF, by default the last time that can be read; with a snapshot all that is there at `a` comes at `a`,
  without one what is after `a`; times never decrease; progress at t says that nothing before t is to come;
  it ends at `b`;
- AS OF before `since` is an error;
- FETCH n waits until there are rows, and gives none when the subscription has ended.

Simple queries alone, passwords in clear text, one relation. A statement that it does not know is an error.
"""

from __future__ import annotations

import re
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

USER, PASSWORD = "reader", "c4nary-of-materialize"
_SUBSCRIBE = re.compile(
    r"DECLARE calve CURSOR FOR SUBSCRIBE (?P<what>.+) WITH \(PROGRESS, SNAPSHOT = (?P<snapshot>true|false)\)"
    r"(?: AS OF (?P<as_of>\d+) UP TO (?P<up_to>\d+))?"
)
_FETCH = re.compile(r"FETCH (\d+) calve")
_DESCRIBE = re.compile(r"SELECT \* FROM (?P<what>.+) AS calve LIMIT 0")
_NUMERIC, _BOOL, _INT8 = 1700, 16, 20

Row = tuple[str | None, ...]


@dataclass
class Relation:
    """A relation and its history."""

    what: str
    columns: list[tuple[str, int, int]]
    """Names, numbers of types, type modifiers."""
    history: list[tuple[int, int, Row]] = field(default_factory=list)
    since: int = 0
    upper: int = 1
    changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, upper: int, *changes: tuple[int, int, Row]) -> None:
        """More history; it is complete up to `upper` then."""
        with self.changed:
            assert all(self.upper <= time < upper for time, _, _ in changes)
            self.history += changes
            self.upper = upper
            self.changed.notify_all()


class _Refused(Exception):
    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class _Cursor:
    """A subscription."""

    def __init__(self, relation: Relation, snapshot: bool, as_of: int | None, up_to: int | None) -> None:
        self._relation = relation
        self._up_to = up_to
        with relation.changed:
            self._at = relation.upper - 1 if as_of is None else as_of
            if self._at < relation.since:
                words = f"Timestamp ({self._at}) is not valid for all inputs: [{relation.since}]"
                raise _Refused("XX000", words)
        self._queue: list[Row] = [self._progress(self._at)]
        self._snapshot = snapshot

    def fetch(self, count: int) -> list[Row]:
        with self._relation.changed:
            while not self._queue and not self._ended:
                self._take()
                if not self._queue and not self._ended:
                    assert self._relation.changed.wait(30), "nothing comes"
            rows, self._queue = self._queue[:count], self._queue[count:]
            return rows

    @property
    def _ended(self) -> bool:
        return self._up_to is not None and self._at + 1 >= self._up_to and not self._snapshot

    def _take(self) -> None:
        relation = self._relation
        if self._snapshot:
            if relation.upper <= self._at:
                return
            there: Counter[Row] = Counter()
            for time, diff, row in relation.history:
                there[row] += diff if time <= self._at else 0
            self._queue += [self._change(self._at, n, row) for row, n in sorted(there.items(), key=str) if n]
            self._snapshot = False
            return
        last = relation.upper if self._up_to is None else min(relation.upper, self._up_to)
        if last <= self._at + 1:
            return
        for time, diff, row in sorted(relation.history, key=lambda one: one[0]):
            if self._at < time < last:
                self._queue.append(self._change(time, diff, row))
        self._queue.append(self._progress(last))
        self._at = last - 1

    def _progress(self, time: int) -> Row:
        return (str(time), "t", None, *(None for _ in self._relation.columns))

    def _change(self, time: int, diff: int, row: Row) -> Row:
        return (str(time), "f", str(diff), *row)


class _Session(socketserver.BaseRequestHandler):
    server: Any
    _cursor: _Cursor | None = None
    _out = b""

    def handle(self) -> None:
        if not self._begin():
            return
        while (message := self._message()) is not None:
            kind, body = message
            if kind == b"X":
                return
            assert kind == b"Q", kind
            statement = body[:-1].decode()
            self.server.seen.append(statement)
            try:
                self._answer(statement)
            except _Refused as error:
                self._send(b"E", b"SERROR\0C" + error.code.encode() + b"\0M" + str(error).encode() + b"\0\0")
            self._send(b"Z", b"I" if self._cursor is None else b"T")

    def _begin(self) -> bool:
        while True:
            (length,) = struct.unpack("!I", self._read(4))
            body = self._read(length - 4)
            if struct.unpack("!I", body[:4])[0] == 196608:
                break
            self.request.sendall(b"N")  # no TLS
        self._send(b"R", struct.pack("!I", 3))
        message = self._message()
        if message is None or message[1] != PASSWORD.encode() + b"\0":
            self._send(b"E", b"SFATAL\0C28P01\0Mpassword authentication failed\0\0")
            return False
        self._send(b"R", struct.pack("!I", 0))
        for name, value in {"server_version": "9.5.0", "client_encoding": "UTF8", "TimeZone": "UTC"}.items():
            self._send(b"S", name.encode() + b"\0" + value.encode() + b"\0")
        self._send(b"Z", b"I")
        return True

    def _answer(self, statement: str) -> None:
        relation: Relation = self.server.relation
        if statement in ("BEGIN", "ROLLBACK"):
            self._cursor = None
            self._send(b"C", statement.encode() + b"\0")
        elif match := _DESCRIBE.fullmatch(statement):
            self._known(match["what"])
            self._describe(relation.columns)
            self._send(b"C", b"SELECT 0\0")
        elif match := _SUBSCRIBE.fullmatch(statement):
            self._known(match["what"])
            bounds = [int(match[name]) if match[name] else None for name in ("as_of", "up_to")]
            self._cursor = _Cursor(relation, match["snapshot"] == "true", *bounds)
            self._send(b"C", b"DECLARE CURSOR\0")
        elif (match := _FETCH.fullmatch(statement)) and self._cursor is not None:
            rows = self._cursor.fetch(int(match[1]))
            meta = [("mz_timestamp", _NUMERIC, -1), ("mz_progressed", _BOOL, -1), ("mz_diff", _INT8, -1)]
            self._describe([*meta, *relation.columns])
            for row in rows:
                self._send(b"D", struct.pack("!H", len(row)) + b"".join(map(_value, row)))
            self._send(b"C", f"FETCH {len(rows)}".encode() + b"\0")
        else:
            raise _Refused("42601", f"not understood: {statement}")

    def _known(self, what: str) -> None:
        if what != self.server.relation.what:
            raise _Refused("42P01", f"unknown catalog item {what}")

    def _describe(self, columns: list[tuple[str, int, int]]) -> None:
        fields = b"".join(
            name.encode() + b"\0" + struct.pack("!IhIhih", 0, 0, number, -1, modifier, 0)
            for name, number, modifier in columns
        )
        self._send(b"T", struct.pack("!H", len(columns)) + fields)

    def _message(self) -> tuple[bytes, bytes] | None:
        kind = self._read(1)
        if not kind:
            return None
        (length,) = struct.unpack("!I", self._read(4))
        return kind, self._read(length - 4)

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.request.recv(count - len(found))
            if not more:
                return b""
            found += more
        return found

    def _send(self, kind: bytes, body: bytes) -> None:
        self._out += kind + struct.pack("!I", len(body) + 4) + body
        if kind in b"EZ" or body == struct.pack("!I", 3):  # an answer is complete: it goes in one piece
            self.request.sendall(self._out)
            self._out = b""


def _value(text: str | None) -> bytes:
    if text is None:
        return struct.pack("!i", -1)
    return struct.pack("!i", len(text.encode())) + text.encode()


@dataclass
class MaterializeServer:
    """A server that runs."""

    relation: Relation
    port: int
    seen: list[str]
    """All statements."""

    @property
    def uri(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/materialize"


@contextmanager
def materialize_server(relation: Relation) -> Iterator[MaterializeServer]:
    """The server of a relation, on a free port, as long as the context."""
    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session)
    server.daemon_threads = True
    server.relation, server.seen = relation, []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield MaterializeServer(relation, server.server_address[1], server.seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
