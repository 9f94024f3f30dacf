"""Progress: what a person sees of a running sink, after each micro-batch.

    Reporter ──SinkProgress──▶ the log, as one line of JSON
                          ├──▶ listeners that the user gave, such as a line in the terminal
                          └──▶ `calve.progress(query)`, the last one

Every sink has a reporter of its own: several in one session keep apart. A listener that fails is the user's
own code failing: it stops the query, as it would in Spark's foreachBatch. No secret is told (P10).

Not here: what a person is told before a query runs (checks.py), and what the table itself remembers.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from calve.config.secret import redact
from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.model.errors import ConfigError
from calve.model.file import FileKind
from calve.model.meaning import Meaning
from calve.runtime.clock import Clock

if TYPE_CHECKING:
    # What is told of may need Spark; to hear of it needs none.
    from calve.runtime.spark.run import Run
    from calve.runtime.spark.stash import Manifest
    from calve.runtime.spark.work import Written
    from calve.table.build import Ready

_log = logging.getLogger("calve.progress")

_FRAMES = ("\tat ", "\t... ")
_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """A sink after a micro-batch; counts are of this micro-batch."""

    table: str
    """`namespace.table`."""
    sink_id: str
    """The name under which the table remembers the sink."""
    query_id: str | None = None
    """Of Spark's query, which is that of its checkpoint."""
    micro_batch: int = -1
    """Spark's number of it."""
    frontier: int | None = None
    """Of the table: every change before it is in."""
    source: str = ""
    """What times mean."""
    lag_ms: int | None = None
    """How far the frontier is behind the clock, where times are timestamps."""
    batches_open: int = 0
    """Begun and not closed: as far as the latest change that waits."""
    batches_closed: int = 0
    """Those that ended with this micro-batch, empty ones included."""
    batches_committed: int = 0
    """Each a snapshot now, with these files; also those that an earlier run had closed."""
    rows: int = 0
    """Changes that came with it, whatever became of them."""
    rows_replayed: int = 0
    """Dropped because the table has them, or because the source had delivered them before."""
    rows_late: int = 0
    """Below an estimated frontier that the stream had passed: they go the way of bad rows."""
    rows_quarantined: int = 0
    """Put into the quarantine, because they do not fit or are late."""
    rows_stashed: int = 0
    """Waiting from now on for their batch to close."""
    files_late: int = 0
    """Of the source, so far: they appeared where it had been read already, and were read all the same."""
    files: int = 0
    """Of rows, in the batches that were committed."""
    delete_files: int = 0
    """Of deleted keys, in the batches that were committed."""
    bytes: int = 0
    """The size of all these files."""
    last_snapshot_id: int | None = None
    """The sink's last commit of data, by this run or one before."""
    generation: int = 0
    """Which run of the sink this is; it grows by one with every start."""
    stash_segments: int = 0
    """Files of rows that wait beside the checkpoint."""
    durations_ms: Mapping[str, float] = field(default_factory=dict)
    """Where the time went, by step."""
    held_by: str = ""
    """The partition of the source that the frontier waits for, where one is behind the others."""
    ended: bool = False
    """It is where the run was to end (`until`), and stands still."""

    @property
    def frontier_at(self) -> datetime | None:
        """The frontier as a point in time, where times are timestamps."""
        return Meaning(self.source).at(self.frontier) if self.frontier else None

    def to_json(self) -> str:
        """One line, for programs."""
        return json.dumps({"event": "progress", **_told(asdict(self))}, sort_keys=True)

    @classmethod
    def from_json(cls, line: str) -> SinkProgress:
        body = json.loads(line)
        del body["event"]
        frontier = body["frontier"]
        return cls(**{**body, "frontier": None if frontier is None else int(frontier)})

    def __str__(self) -> str:
        parts = [f"{self.table}: micro-batch {self.micro_batch}", f"{self.rows:,} rows"]
        if self.batches_committed:
            parts.append(f"{self.batches_committed} committed")
        if self.frontier:
            at = self.frontier_at
            parts.append(f"frontier {self.frontier if at is None else f'{at:%F %T}'}")
        if self.lag_ms is not None:
            parts.append(f"{self.lag_ms / 1000:.1f} s behind")
        if self.held_by:
            parts.append(f"held by {self.held_by}")
        parts += (f"{count:,} {word}" for count, word in self._remarkable() if count)
        return " · ".join(parts) + f" · {self.durations_ms.get('total', 0):.0f} ms"

    def _remarkable(self) -> Sequence[tuple[int, str]]:
        return (
            (self.rows_stashed, "waiting"),
            (self.rows_replayed, "replayed"),
            (self.rows_late, "late"),
            (self.rows_quarantined, "quarantined"),
            (self.files_late, "files came late"),
        )


class SinkListener:
    """What a user may want to know. Override what you need; called on the query's own thread."""

    def on_progress(self, progress: SinkProgress) -> None:
        """After each micro-batch."""

    def on_stopped(self, table: str, error: str) -> None:
        """When a micro-batch failed, and the query with it. Not when somebody stopped the query."""


class TerminalLine(SinkListener):
    """The last progress as one line that is written over, on a terminal; silent anywhere else."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def on_progress(self, progress: SinkProgress) -> None:
        self.show(str(progress))

    def on_stopped(self, table: str, error: str) -> None:
        self.show(f"{table}: stopped: {error}", end="\n")

    def show(self, text: str, end: str = "") -> None:
        """Write over the line. A text that is wider than the terminal is cut: what wraps is not written
        over by the next one."""
        if not self._stream.isatty():
            return
        line = next(iter(text.splitlines()), "")[: self._columns() - 1]
        self._stream.write(f"\r\x1b[2K{line}{end}")
        self._stream.flush()

    def _columns(self) -> int:
        return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS


class Reporter:
    """Gathers what happens to a micro-batch, and tells it."""

    def __init__(self, config: StreamConfig, listeners: Sequence[SinkListener], clock: Clock) -> None:
        self.last = SinkProgress(config.sink.table_name, config.sink.sink_id)
        self._listeners = tuple(listeners)
        self._clock = clock
        self._run: Run | None = None
        self._now = self.last
        self._durations: dict[str, float] = {}

    def begun(self, run: Run, source: str) -> None:
        """A run holds the table."""
        self._run = run
        self._now = replace(self._now, query_id=run.checkpoint, source=source, generation=run.generation)

    @contextmanager
    def micro_batch(self, number: int) -> Iterator[None]:
        """Tell what became of a micro-batch, or why nothing did."""
        self._durations = {}
        known = self.last
        self._now = SinkProgress(
            known.table,
            known.sink_id,
            known.query_id,
            number,
            source=known.source,
            generation=known.generation,
        )
        try:
            with self.timed("total"):
                yield
        except Exception as error:
            from calve.runtime.spark.stops import is_stop  # needs Spark, as what failed did

            if not is_stop(error):
                self._tell_stop(_words(error))
            raise
        self._tell()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the time of a step."""
        began = self._clock.ticks_ms()
        try:
            yield
        finally:
            self._durations[what] = self._durations.get(what, 0.0) + self._clock.ticks_ms() - began

    def wrote(self, written: Written, files_late: int = 0, held_by: str = "") -> None:
        """The rows of the micro-batch are where they belong, and nothing of it is committed yet."""
        counts = written.counts
        self._now = replace(
            self._now,
            batches_closed=written.batches_closed,
            rows=counts.rows,
            rows_replayed=counts.replayed,
            rows_late=counts.late,
            rows_quarantined=counts.quarantined,
            rows_stashed=written.rows_stashed,
            files_late=files_late,
            held_by=held_by,
        )

    def committed(self, batches: Sequence[Ready], manifest: Manifest, waiting: Iterable[Batch]) -> None:
        """These batches are snapshots now; what the manifest says still waits, and files of these batches."""
        files = [file for ready in batches for file in ready.files]
        self._now = replace(
            self._now,
            batches_open=open_batches(manifest, waiting),
            batches_committed=len(batches),
            files=sum(file.kind is FileKind.DATA for file in files),
            delete_files=sum(file.kind is not FileKind.DATA for file in files),
            bytes=sum(file.file_bytes for file in files),
            stash_segments=len(manifest.segments),
            ended=manifest.until is not None,
        )

    def _tell(self) -> None:
        assert self._run is not None
        progress = self._run.target.progress
        meaning = Meaning(self._now.source)
        # Before the first commit there is no lag.
        lag = meaning.lag_ms(progress.frontier, self._clock.now_ms()) if progress.frontier else None
        self.last = replace(
            self._now,
            frontier=progress.frontier,
            last_snapshot_id=progress.committed,
            lag_ms=lag,
            durations_ms=dict(self._durations),
        )
        _log.info("%s", self.last.to_json())
        for listener in self._listeners:
            listener.on_progress(self.last)

    def _tell_stop(self, error: str) -> None:
        now = self._now
        told = {"table": now.table, "sink_id": now.sink_id, "query_id": now.query_id}
        body = {"event": "stopped", **told, "micro_batch": now.micro_batch, "error": error}
        _log.error("%s", json.dumps(body, sort_keys=True))
        for listener in self._listeners:
            listener.on_stopped(now.table, error)


def _words(error: Exception) -> str:
    """What an error says, without the stack of the JVM, which the query's own exception has."""
    lines = [line for line in str(error).splitlines() if not line.startswith(_FRAMES)]
    return redact("\n".join(lines).strip() or type(error).__name__)


def open_batches(manifest: Manifest, waiting: Iterable[Batch]) -> int:
    """How many batches have begun and are not closed, as far as the latest change that waits: in the stash,
    or in files of `waiting` batches. Without an interval the open batch has no end yet, and is one."""
    ends = [*(segment.upper for segment in manifest.segments), *(batch.upper for batch in waiting)]
    end = max(ends, default=0)
    closed = max(manifest.closed, manifest.published)  # under an older checkpoint the table has more
    if end <= closed:
        return 0
    if manifest.interval is None:
        return 1
    return -(-end // manifest.interval) - closed // manifest.interval


def _told(body: dict[str, object]) -> dict[str, object]:
    """Times have up to 38 digits, and many JSON readers keep only 53 bits: as text."""
    return body | {"frontier": None if body["frontier"] is None else str(body["frontier"])}


_REPORTERS: dict[str, Callable[[], Sequence[Reporter]]] = {}


def register(query_id: str, reporters: Callable[[], Sequence[Reporter]]) -> None:
    """Let a query's progress be found by its id."""
    _REPORTERS[query_id] = reporters


def progress(query: object, table: str | None = None) -> SinkProgress | None:
    """What became of the last micro-batch of a query that `to_table` started; `None` for any other query.
    Where it has several tables, say which one: `namespace.table`."""
    reporters = _REPORTERS.get(str(getattr(query, "id", query)), list)()
    found = [one for one in reporters if table is None or one.last.table == table]
    if len(found) > 1:
        raise ConfigError(
            "the query writes several tables: " + ", ".join(one.last.table for one in found),
            hint="Say which one: calve.progress(query, 'sales.orders').",
        )
    return found[0].last if found else None
