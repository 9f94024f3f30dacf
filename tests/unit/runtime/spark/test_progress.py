"""Progress: what a person is told of a sink, in a log, in a terminal and by name."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
import termios
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
from pyiceberg.schema import Schema

import calve
from calve.config.sink import SinkConfig
from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.model.errors import BadRow
from calve.model.file import FileClosed, FileKind
from calve.model.progress import Progress
from calve.runtime.spark.progress import (
    Reporter,
    SinkListener,
    SinkProgress,
    TerminalLine,
    open_batches,
    progress,
    register,
)
from calve.runtime.spark.stash import Manifest, Segment
from calve.runtime.spark.work import Written
from calve.table.build import Ready
from calve.writer.messages import Counts
from tests.support.sinks import MovableClock

FRONTIER = 1_799_999_990_000_000
"""In microseconds: ten seconds before the clock of the tests."""
SOURCE = "column ts (timestamp)"
FULL = SinkProgress(
    "sales.orders", "sales.orders", "a query", 7, FRONTIER, SOURCE, 10_000, 2, 1, 1, 1_234, 5, 6, 7, 8, 9, 3,
    2, 4096, 99, 4, 1, {"write": 20.0, "total": 31.5},
)  # fmt: skip


class Listener(SinkListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[SinkProgress] = []
        self.stops: list[tuple[str, str]] = []

    def on_progress(self, progress: SinkProgress) -> None:
        self.told.append(progress)

    def on_stopped(self, table: str, error: str) -> None:
        self.stops.append((table, error))


@dataclass
class FakeRun:
    """A run that holds a table with this progress."""

    frontier: int = FRONTIER
    checkpoint: str = "a query"
    generation: int = 4

    @property
    def target(self) -> Any:
        writer = uuid.UUID(int=1)
        told = Progress("sales.orders", self.frontier, 0, self.generation, writer, SOURCE, committed=99)
        return SimpleNamespace(progress=told)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def reporter(clock: MovableClock, listener: Listener) -> Reporter:
    sink = SinkConfig(namespace="sales", table="orders", sink_id="sales.orders")
    return Reporter(StreamConfig(sink=sink, checkpoint="/c"), [listener], clock)


def file_of(batch: Batch, kind: FileKind = FileKind.DATA) -> FileClosed:
    ids = (1,) if kind is FileKind.EQUALITY_DELETE else ()
    return FileClosed(batch, "w", "file:///f.parquet", kind, 3, 0, (), 10, 2048, equality_ids=ids)


def ready(batch: Batch, *kinds: FileKind) -> Ready:
    return Ready(batch, tuple(file_of(batch, kind) for kind in kinds), Schema(), None)


def report(reporter: Reporter, clock: MovableClock, run: Any = None) -> None:
    """A micro-batch that brings a batch in, and leaves rows that wait."""
    with reporter.micro_batch(7):
        reporter.begun(run or FakeRun(), SOURCE)  # type: ignore[arg-type]
        with reporter.timed("write"):
            clock.now += 20
            written = Written(
                closed=120,
                placed=120,
                published=120,
                counts=Counts(rows=1_234, replayed=5, late=6, quarantined=7),
                batches_closed=1,
                rows_stashed=8,
            )
        reporter.wrote(written, files_late=9)
        batch = Batch(60, 120)
        committed = [ready(batch, FileKind.DATA, FileKind.DATA, FileKind.EQUALITY_DELETE)]
        manifest = Manifest(
            7, 4, 0, "x", closed=120, interval=60, segments=(Segment("s", 130, 200, 8),), waiting=()
        )
        reporter.committed(committed, manifest, [])


# -- what is told ---------------------------------------------------------------------------------


def test_a_micro_batch_is_told_with_all_its_counts(reporter, listener, clock):
    report(reporter, clock)
    (told,) = listener.told
    assert told == SinkProgress(
        table="sales.orders",
        sink_id="sales.orders",
        query_id="a query",
        micro_batch=7,
        frontier=FRONTIER,
        source=SOURCE,
        lag_ms=10_020,
        batches_open=2,
        batches_closed=1,
        batches_committed=1,
        rows=1_234,
        rows_replayed=5,
        rows_late=6,
        rows_quarantined=7,
        rows_stashed=8,
        files_late=9,
        files=2,
        delete_files=1,
        bytes=3 * 2048,
        last_snapshot_id=99,
        generation=4,
        stash_segments=1,
        durations_ms={"write": 20.0, "total": 20.0},
    )
    assert reporter.last == told


def test_a_micro_batch_that_is_skipped_is_told_without_the_counts_of_the_one_before(
    reporter, listener, clock
):
    report(reporter, clock)
    with reporter.micro_batch(8):
        clock.now += 3
    told = listener.told[1]
    assert (told.micro_batch, told.rows, told.files, told.batches_committed) == (8, 0, 0, 0)
    assert (told.query_id, told.source, told.generation) == ("a query", SOURCE, 4)
    assert (told.frontier, told.durations_ms) == (FRONTIER, {"total": 3.0})


def test_the_time_of_a_step_that_is_done_twice_is_added_up(reporter, listener, clock):
    with reporter.micro_batch(0):
        reporter.begun(FakeRun(), SOURCE)
        for _ in range(2):
            with reporter.timed("write"):
                clock.now += 5
    assert listener.told[0].durations_ms == {"write": 10.0, "total": 10.0}


@pytest.mark.parametrize(
    "run, source",
    [(FakeRun(frontier=0), SOURCE), (FakeRun(), "column n (bigint)")],
    ids=["no commit", "numbers"],
)
def test_there_is_no_lag_before_the_first_commit_and_none_of_numbers(reporter, listener, clock, run, source):
    with reporter.micro_batch(0):
        reporter.begun(run, source)
    assert listener.told[0].lag_ms is None


def test_a_time_of_cockroachdb_is_a_point_in_time_and_has_a_lag(reporter, listener, clock):
    at = clock.now_ms() - 2_500
    run = FakeRun(frontier=at * 10**16 + 3)
    with reporter.micro_batch(0):
        reporter.begun(run, "hlc")
    told = listener.told[0]
    assert told.lag_ms == 2_500
    assert told.frontier_at is not None
    assert told.frontier_at.timestamp() * 1000 == pytest.approx(at)


def test_a_micro_batch_that_fails_is_told_as_a_stop_and_not_as_progress(reporter, listener, clock, caplog):
    report(reporter, clock)
    caplog.clear()
    with pytest.raises(BadRow), caplog.at_level(logging.INFO, "calve.progress"), reporter.micro_batch(8):
        raise BadRow("row 3 has no key; seen at s3://me:secret@host/x", hint="Give it one.")
    assert len(listener.told) == 1
    ((table, error),) = listener.stops
    assert table == "sales.orders"
    assert error.startswith("row 3 has no key")
    assert "secret" not in error, "P10"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    line = json.loads(record.getMessage())
    assert (line["event"], line["query_id"], line["micro_batch"]) == ("stopped", "a query", 8)
    assert line["error"] == error
    assert reporter.last == listener.told[0]


def test_a_stop_is_told_without_the_stack_of_the_jvm(reporter, listener):
    with pytest.raises(RuntimeError), reporter.micro_batch(0):
        raise RuntimeError(
            "called o1.collect\n: java.X: no file\n\tat a.B(C.java:1)\n\t... 3 more\nCaused by: y"
        )
    assert listener.stops[0][1] == "called o1.collect\n: java.X: no file\nCaused by: y"


def test_an_error_without_words_is_told_by_its_name(reporter, listener):
    with pytest.raises(AssertionError), reporter.micro_batch(0):
        raise AssertionError
    assert listener.stops == [("sales.orders", "AssertionError")]


def test_a_listener_that_fails_fails_the_micro_batch(clock):
    class Broken(SinkListener):
        def on_progress(self, progress: SinkProgress) -> None:
            raise RuntimeError("no room in the dashboard")

    config = StreamConfig(sink=SinkConfig(namespace="n", table="t"), checkpoint="/c")
    with pytest.raises(RuntimeError, match="no room"):
        report(Reporter(config, [Broken()], clock), clock)


# -- open batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "closed, interval, segments, waiting, count",
    [
        (0, None, [], [], 0),
        (120, 60, [], [], 0),
        (120, 60, [(120, 121)], [], 1),
        (120, 60, [(120, 180)], [], 1),
        (120, 60, [(120, 181)], [], 2),
        (120, 60, [(150, 160), (300, 310)], [], 4),  # the ones between are open, with nothing in them yet
        (130, 60, [(130, 140)], [], 1),  # a frontier that is no multiple: after a catch-up without interval
        (120, 60, [], [(120, 180), (180, 240)], 2),
        (120, 60, [], [(60, 120)], 0),  # an outbox that is kept for another of its batches
        (120, 60, [(120, 130)], [(240, 300)], 3),
        (120, None, [(130, 999)], [], 1),
    ],
)
def test_open_batches_reach_as_far_as_the_latest_change_that_waits(
    closed, interval, segments, waiting, count
):
    kept = tuple(Segment("s", lower, upper, 1) for lower, upper in segments)
    manifest = Manifest(0, 1, 0, "x", closed=closed, interval=interval, segments=kept)
    assert open_batches(manifest, [Batch(*bounds) for bounds in waiting]) == count


def test_what_the_table_has_is_not_open_under_an_older_checkpoint():
    manifest = Manifest(
        0, 1, 0, "x", closed=60, published=120, interval=60, segments=(Segment("s", 130, 140, 1),)
    )
    assert open_batches(manifest, []) == 1


# -- the log --------------------------------------------------------------------------------------


def test_the_log_has_one_line_of_json_for_each_micro_batch(reporter, listener, clock, caplog):
    with caplog.at_level(logging.INFO, "calve.progress"):
        report(reporter, clock)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("calve.progress", logging.INFO)
    line = record.getMessage()
    assert "\n" not in line
    body = json.loads(line)
    assert body["event"] == "progress"
    assert body["frontier"] == str(FRONTIER)
    assert body["rows"] == 1_234
    assert body["durations_ms"] == {"write": 20.0, "total": 20.0}
    assert SinkProgress.from_json(line) == listener.told[0]


@pytest.mark.parametrize("frontier", [None, 0, 10**38 - 1])
def test_a_frontier_of_any_size_survives_the_log(frontier):
    told = replace(FULL, frontier=frontier)
    assert SinkProgress.from_json(told.to_json()) == told
    assert json.loads(told.to_json())["frontier"] == (None if frontier is None else str(frontier))


# -- for eyes -------------------------------------------------------------------------------------


def test_a_line_for_people_names_what_is_remarkable():
    assert str(FULL) == (
        "sales.orders: micro-batch 7 · 1,234 rows · 1 committed · frontier 2027-01-15 07:59:50"
        " · 10.0 s behind · 8 waiting · 5 replayed · 6 late · 7 quarantined"
        " · 9 files came late · 32 ms"
    )
    assert str(SinkProgress("t", "t", micro_batch=0)) == "t: micro-batch 0 · 0 rows · 0 ms"
    numbers = SinkProgress("t", "t", micro_batch=0, frontier=12, source="column lsn (bigint)")
    assert "frontier 12" in str(numbers)


@pytest.mark.parametrize(
    "frontier, source, at",
    [
        (1_000_000, SOURCE, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (1_000_000, "column ts (timestamp_ntz)", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (1_000_000, "column lsn (bigint)", None),
        (1_000_000, "micro-batch", None),
        (1_000, "mz_timestamp", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (0, SOURCE, None),
        (None, SOURCE, None),
        (2**63 - 1, SOURCE, None),
    ],
)
def test_a_frontier_is_a_point_in_time_where_times_are_timestamps(frontier, source, at):
    told = replace(FULL, frontier=frontier, source=source)
    assert told.frontier_at == at
    assert str(told)


class Terminal:
    """A pseudo terminal: what is written to `stream` shows on `screen`."""

    def __init__(self, columns: int) -> None:
        self._screen, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, columns))
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")

    def screen(self) -> str:
        """All that was written; nothing can be after it."""
        self.stream.close()
        shown = b""
        while True:
            try:
                shown += os.read(self._screen, 10_000)
            except OSError:  # so does the end of a terminal show
                return shown.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._screen)


@pytest.fixture
def terminal() -> Iterator[Any]:
    made: list[Terminal] = []

    def make(columns: int) -> Terminal:
        made.append(Terminal(columns))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_terminal_shows_the_last_progress_on_one_line(terminal):
    screen = terminal(200)
    line = TerminalLine(screen.stream)
    line.on_progress(FULL)
    line.on_progress(replace(FULL, micro_batch=8))
    assert screen.screen() == f"\r\x1b[2K{FULL}\r\x1b[2K{replace(FULL, micro_batch=8)}"


def test_a_line_that_is_wider_than_the_terminal_is_cut(terminal):
    """What wraps would stay there when the next line is written over it."""
    screen = terminal(40)
    TerminalLine(screen.stream).on_progress(FULL)
    shown = screen.screen().removeprefix("\r\x1b[2K")
    assert shown == str(FULL)[:39]


def test_a_stop_is_shown_in_its_first_line_and_stays(terminal):
    screen = terminal(80)
    TerminalLine(screen.stream).on_stopped("t", "row 3 has no key\n  hint: Give it one.")
    assert screen.screen() == "\r\x1b[2Kt: stopped: row 3 has no key\r\n"


def test_what_is_no_terminal_is_left_alone(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        line = TerminalLine(stream)
        line.on_progress(FULL)
        line.on_stopped("t", "an error")
    assert (tmp_path / "log").read_text() == ""


# -- by name --------------------------------------------------------------------------------------


def test_progress_is_found_by_the_query_and_by_its_id_and_sinks_keep_apart(reporter, clock):
    other = Reporter(
        StreamConfig(sink=SinkConfig(namespace="n", table="t"), checkpoint="/c"), [], MovableClock()
    )
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    register(first, lambda: [reporter])
    register(second, lambda: [other])
    report(reporter, clock)
    query = SimpleNamespace(id=first)
    assert progress(query) == progress(first) == reporter.last
    waits = progress(second)
    assert waits is not None
    assert (waits.table, waits.micro_batch) == ("n.t", -1)
    assert progress(SimpleNamespace(id=str(uuid.uuid4()))) is None


def test_a_listener_needs_no_spark():
    """A dashboard that reads the log runs where there is none."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import calve; calve.SinkListener, calve.SinkProgress, calve.TerminalLine, calve.progress\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_package_shows_what_is_for_users():
    assert calve.progress is progress
    assert calve.SinkProgress is SinkProgress
    assert calve.SinkListener is SinkListener
    assert calve.TerminalLine is TerminalLine
