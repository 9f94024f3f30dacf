"""Run: the sinks of a job at work, until they are done, a time is reached, or somebody says stop.

    sinks ──start──▶ queries ──▶ one failed: the others stop · each has ended, or is where it should be

Each sink is a query of its own, with a checkpoint of its own: sinks do not wait for one another. When one
fails, the others are stopped, because a person who started them together wants to know. A query that is
stopped in the middle of a micro-batch loses nothing: the next start does it again, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from calve.runtime.spark.apart import apart
from calve.runtime.spark.job.job import Prepared
from calve.runtime.spark.progress import SinkListener, SinkProgress


@dataclass(slots=True)
class RanTable:
    """What a run did to one table."""

    table: str
    rows: int = 0
    snapshots: int = 0
    quarantined: int = 0
    last: SinkProgress | None = None

    def heard(self, progress: SinkProgress) -> None:
        self.rows += progress.rows
        self.snapshots += progress.batches_committed
        self.quarantined += progress.rows_quarantined
        self.last = progress

    def to_json(self) -> dict[str, object]:
        last = self.last
        return {
            "table": self.table,
            "rows": self.rows,
            "snapshots": self.snapshots,
            "quarantined": self.quarantined,
            "frontier": None if last is None or last.frontier is None else str(last.frontier),
            "snapshot_id": None if last is None else last.last_snapshot_id,
        }


@dataclass(slots=True)
class Ran:
    """What a run did, sink by sink, and table by table where a sink has several."""

    sink: str
    micro_batches: int = 0
    tables: dict[str, RanTable] = field(default_factory=dict)
    last: SinkProgress | None = None

    def heard(self, progress: SinkProgress) -> None:
        """The tables of a sink go in step: each of them tells of a micro-batch before the next one."""
        if self.last is None or self.last.micro_batch != progress.micro_batch:
            self.micro_batches += 1
        self.last = progress
        self.tables.setdefault(progress.table, RanTable(progress.table)).heard(progress)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables.values())

    @property
    def snapshots(self) -> int:
        return sum(one.snapshots for one in self.tables.values())

    @property
    def quarantined(self) -> int:
        return sum(one.quarantined for one in self.tables.values())

    def to_json(self) -> dict[str, object]:
        return {
            "sink": self.sink,
            "micro_batches": self.micro_batches,
            "rows": self.rows,
            "snapshots": self.snapshots,
            "quarantined": self.quarantined,
            "tables": [one.to_json() for one in self.tables.values()],
        }


Reached = Callable[[SinkProgress], bool]
"""Whether a sink has come as far as it should."""


@dataclass(slots=True)
class Watch(SinkListener):
    """Listens to all queries of a run, and wakes who waits for them."""

    reached: Reached | None = None
    tell: Callable[[Ran], None] = lambda _: None
    """Called after each micro-batch, on the query's own thread."""
    ran: dict[str, Ran] = field(default_factory=dict)
    _there: dict[str, set[str]] = field(default_factory=dict)
    """Of sinks that were heard of, the tables that are not yet where they should be."""
    _ended: dict[str, bool] = field(default_factory=dict)
    """Of queries that have ended, whether they failed."""
    _wake: threading.Condition = field(default_factory=threading.Condition)

    def of(self, sink: str) -> SinkListener:
        """The listener of one sink."""
        self.ran[sink] = Ran(sink)
        return _OfSink(self, sink)

    def heard(self, sink: str, progress: SinkProgress) -> None:
        with self._wake:
            self.ran[sink].heard(progress)
            tables = self._there.setdefault(sink, set())
            tables.add(progress.table)
            if self.reached is not None and self.reached(progress):
                tables.discard(progress.table)
            self._wake.notify_all()
        self.tell(self.ran[sink])

    def wait(self, queries: Mapping[str, StreamingQuery]) -> None:
        """Until one has failed, or each has ended or is where it should be."""
        for name, query in queries.items():
            threading.Thread(target=self._await, args=(name, query), daemon=True).start()
        with self._wake:
            self._wake.wait_for(lambda: any(self._ended.values()) or all(map(self._is_done, queries)))

    def _is_done(self, sink: str) -> bool:
        """Whether a sink has ended, or every table of it is where it should be."""
        return sink in self._ended or (self.reached is not None and self._there.get(sink) == set())

    def _await(self, name: str, query: StreamingQuery) -> None:
        """Spark tells nobody in Python that a query has ended, but who waits for it."""
        failed = True
        try:
            query.awaitTermination()
            failed = False
        except (StreamingQueryException, Py4JError):  # told by whoever started it
            pass
        finally:
            with self._wake:
                self._ended[name] = failed
                self._wake.notify_all()


@dataclass(slots=True)
class _OfSink(SinkListener):
    watch: Watch
    sink: str

    def on_progress(self, progress: SinkProgress) -> None:
        self.watch.heard(self.sink, progress)


def run(
    prepared: Sequence[Prepared], watch: Watch, *, once: bool = False, until: str | None = None
) -> list[Ran]:
    """Start all sinks, and wait. Raises what stopped one of them. A signal may come at any moment: then all
    are stopped, in order, and it goes on."""
    queries: dict[str, StreamingQuery] = {}
    listeners = {one.asked.name: watch.of(one.asked.name) for one in prepared}
    left = threading.Event()

    def start() -> None:
        for one in prepared:
            if left.is_set():
                return
            listener = listeners[one.asked.name]
            query = queries[one.asked.name] = one.start(once=once, until=until, watch=(listener,))
            if left.is_set():
                query.stop()  # it began while the others were stopped

    def stop() -> None:
        for query in list(queries.values()):
            if query.isActive:
                query.stop()

    def tell() -> None:
        for query in queries.values():
            if query.exception() is not None:
                query.awaitTermination()  # raises it

    try:
        apart(start)
        watch.wait(queries)
    finally:
        left.set()
        apart(stop)
    apart(tell)
    return list(watch.ran.values())
