"""A changefeed: what one would send of a history, into files or into Kafka, with duplicates and in disorder.

    History ──▶ nodes, each with a part of the keys ──▶ emissions ──▶ files (here) │ messages (messages.py)
                       └── restarts: a new session sends again all since the last resolved timestamp

See README.md for the rules, and where each comes from.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.support.changefeed.history import Change, History
from tests.support.changefeed.parquet import as_parquet, resolved_parquet
from tests.support.changefeed.values import array, obj, raw_object

LAYOUTS = ("daily", "hourly", "flat")


def hlc(time: int) -> str:
    wall, logical = divmod(time, 10**10)
    return f"{wall}.{logical:010d}"


def ts(time: int) -> str:
    """A time, as names of files have it."""
    wall, logical = divmod(time, 10**10)
    seconds, nanoseconds = divmod(wall, 10**9)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{moment:%Y%m%d%H%M%S}{nanoseconds:09d}{logical:010d}"


@dataclass(frozen=True)
class Nemesis:
    """How often, of a hundred, something happens in a round."""

    restarts: int = 15
    small_files: int = 30
    """A file is written before its node is done."""
    late_files: int = 0
    """A file with duplicates, and rows beyond it, appears behind a RESOLVED file that sorts behind it."""


QUIET = Nemesis(0, 0, 0)


@dataclass(frozen=True)
class Emission:
    """A row that was sent: a change, at the time that is said for it."""

    change: Change
    updated: int

    @property
    def key(self) -> str:
        return array(self.change.key)

    def wrapped(
        self, *, diff: bool = False, mvcc: bool = False, topic: bool = False, key: bool = True
    ) -> str:
        """The row in its envelope, as JSON."""
        version = self.change.version
        fields = {
            "after": "null" if version.row is None else obj(version.row),
            "updated": f'"{hlc(self.updated)}"',
        }
        if key:
            fields["key"] = self.key
        if diff:
            fields["before"] = "null" if version.before is None else obj(version.before)
        if mvcc:
            fields["mvcc_timestamp"] = f'"{hlc(version.mvcc)}"'
        if topic:
            fields["topic"] = json.dumps(self.change.topic)
        return raw_object(fields)


@dataclass(frozen=True)
class Resolved:
    """A resolved timestamp that was sent."""

    time: int


@dataclass(frozen=True)
class Write:
    """A file that appears in the bucket."""

    path: str
    content: bytes


@dataclass
class _Node:
    number: int
    sink: int
    session: str
    frontier: int
    file_ts: int
    files: int = 0
    buffers: dict[tuple[str, int], list[Emission]] = field(default_factory=dict)


class Changefeed:
    """A changefeed of a history. `run` yields what appears in the bucket, in the order in which it does."""

    def __init__(
        self,
        history: History,
        *,
        seed: int = 0,
        nodes: int = 3,
        layout: str = "daily",
        kind: str = ".ndjson",
        nemesis: Nemesis = QUIET,
        diff: bool = False,
        mvcc: bool = False,
        topic_in_value: bool = False,
    ) -> None:
        self.history, self.layout, self.kind, self.nemesis = history, layout, kind, nemesis
        self.sent: list[Emission | Resolved] = []
        """Everything, in the order in which it was sent."""
        self.resolved: list[int] = []
        self._options = {"diff": diff, "mvcc": mvcc, "topic": topic_in_value}
        self._random = Random(f"changefeed {seed}")
        self._count = nodes
        self._sinks = 0
        self._scanned = False
        self.started = history.now
        self._nodes: list[_Node] = []
        self._begin(history.now, history.now)

    def run(self, rounds: int, transactions: int = 10) -> Iterator[Write]:
        """Rounds: some transactions, what nodes send of them, and mostly a resolved timestamp."""
        for _ in range(rounds):
            self.history.run(transactions)
            yield from self.round()

    def round(self) -> Iterator[Write]:
        """Send what has happened."""
        writes: list[Write] = []
        if not self._scanned:
            for node in self._nodes:
                self._scan(node)
        restart = self._chance(self.nemesis.restarts)
        for node in self._nodes:
            target = self.history.now if self._chance(70) else self._between(node.frontier, self.history.now)
            writes += self._send(node, target)
            if not (restart and self._chance(50)):
                writes += self._flush(node, target)
        self._random.shuffle(writes)  # files are written by many, in no order
        yield from writes
        if restart:
            self._begin(self._resolved, self._resolved + bool(self.resolved))
            return
        self._scanned = True
        if (frontier := min(node.frontier for node in self._nodes)) > self._resolved or not self.resolved:
            yield self._resolve(frontier)
        if self._chance(self.nemesis.late_files) and (late := self.late_file()) is not None:
            yield late

    def state(self, topic: str, time: int) -> dict[tuple[object, ...], dict[str, object]]:
        """The truth: a table's rows at a time."""
        return self.history.state(topic, time)

    @property
    def _resolved(self) -> int:
        return self.resolved[-1] if self.resolved else self.started

    def _begin(self, frontier: int, file_ts: int) -> None:
        """A new session. What was not written is lost; all since `frontier` is sent again."""
        session = f"{self._random.getrandbits(64):016x}"
        self._nodes = []
        for number in range(1, self._count + 1):
            self._sinks += 1
            self._nodes.append(_Node(number, self._sinks, session, frontier, file_ts))
        self._offset = self._random.randrange(self._count)  # keys are dealt anew

    def _mine(self, node: _Node, change: Change) -> bool:
        return (hash_of(change) + self._offset) % self._count == node.number - 1

    def _scan(self, node: _Node) -> None:
        """The initial scan: what was there when the changefeed was created, with that time for all."""
        for topic in sorted(self.history.tables):
            for change in self.history.at(topic, self.started):
                if self._mine(node, change):
                    self._emit(node, Emission(change, self.started))

    def _send(self, node: _Node, target: int) -> Iterator[Write]:
        for change in self.history.between(node.frontier, target):
            if self._mine(node, change):
                self._emit(node, Emission(change, change.version.time))
                if self._chance(self.nemesis.small_files // 10):
                    yield from self._write(node, (change.topic, change.version.schema))

    def _emit(self, node: _Node, emission: Emission) -> None:
        self.sent.append(emission)
        key = (emission.change.topic, emission.change.version.schema)
        node.buffers.setdefault(key, []).append(emission)

    def _flush(self, node: _Node, target: int) -> Iterator[Write]:
        """All that is held is written; then the node's frontier moves, and with it the names of its files."""
        for key in sorted(node.buffers):
            yield from self._write(node, key)
        node.frontier, node.file_ts = target, target + 1

    def _write(self, node: _Node, key: tuple[str, int]) -> Iterator[Write]:
        if emissions := node.buffers.pop(key, []):
            yield self._file(node, key, emissions, node.file_ts)

    def _file(self, node: _Node, key: tuple[str, int], emissions: list[Emission], time: int) -> Write:
        topic, schema = key
        unique = f"{node.session}-{node.number}-{node.sink}-{node.files:08x}"
        node.files += 1
        name = f"{self._folder(time)}{ts(time)}-{unique}-{topic}-{schema:x}{self.kind}"
        return Write(name, self._content(emissions))

    def _content(self, emissions: list[Emission]) -> bytes:
        if self.kind == ".parquet":
            topic, version = emissions[0].change.topic, emissions[0].change.version
            return as_parquet(self.history.schemas[topic][version.schema - 1][1], emissions)
        text = "".join(emission.wrapped(**self._options) + "\n" for emission in emissions).encode()
        return gzip.compress(text, 1) if self.kind.endswith(".gz") else text

    def _resolve(self, time: int) -> Write:
        self.resolved.append(time)
        self.sent.append(Resolved(time))
        content = json.dumps({"resolved": hlc(time)}).encode()
        if self.kind == ".parquet":
            content = resolved_parquet(hlc(time))
        return Write(f"{self._folder(time)}{ts(time)}.RESOLVED", content)

    def late_file(self) -> Write | None:
        """Duplicates of what was sent, under a name that sorts before the last RESOLVED file."""
        if len(self.resolved) < 2:
            return None
        old = [one for one in self.sent if isinstance(one, Emission) and one.updated > self.resolved[-2]]
        if not old:
            return None
        first = self._random.choice(old)
        key = (first.change.topic, first.change.version.schema)
        same = [one for one in old if (one.change.topic, one.change.version.schema) == key]
        node = self._random.choice(self._nodes)
        return self._file(node, key, same, self.resolved[-2] + 1)

    def _folder(self, time: int) -> str:
        text = ts(time)
        day = f"{text[:4]}-{text[4:6]}-{text[6:8]}/"
        return {"daily": day, "hourly": f"{day}{text[8:10]}/", "flat": ""}[self.layout]

    def _between(self, low: int, high: int) -> int:
        times = [change.version.time for change in self.history.between(low, high)]
        return self._random.choice([low, *times])

    def _chance(self, of_hundred: int) -> bool:
        return self._random.randrange(100) < of_hundred


def hash_of(change: Change) -> int:
    """The same in every process."""
    return sum(f"{change.topic} {change.key!r}".encode())
