"""A catalog that is locked or away: waited for, within bounds, and named without its password."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from calve import CatalogError, CommitUnknown, IcebergSink, SinkConfig
from tests.support.backends import Backend, sql_options
from tests.support.sinks import MovableClock, commit
from tests.support.truth import rows_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[Backend, sqlite3.Connection]]:
    """SQLite whose own patience is short, and another connection to its file."""
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=0.05"
    backend = Backend("sqlite", tmp_path, sql_options(uri, tmp_path))
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    yield backend, other
    other.close()
    backend.close()


class UnlockingClock(MovableClock):
    """Somebody gives a lock back while the sink waits for the third time."""

    def __init__(self, other: sqlite3.Connection) -> None:
        super().__init__()
        self._other = other

    def wait_ms(self, duration_ms: int) -> None:
        super().wait_ms(duration_ms)
        if len(self.waits) == 3:
            self._other.execute("ROLLBACK")


def test_case_30_a_locked_sqlite_is_waited_for(locked: tuple[Backend, sqlite3.Connection]) -> None:
    backend, other = locked
    clock = UnlockingClock(other)
    with IcebergSink(SinkConfig.from_options(backend.options), clock=clock) as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(MORE)
        other.execute("BEGIN EXCLUSIVE")
        assert sink.commit_epoch(1).snapshot_id is not None
        assert len(clock.waits) >= 3
        assert sink.metrics().unknown_answers >= 1
    assert len(rows_of(backend.load())) == 3


def test_case_30_a_lock_that_never_ends_loses_nothing(locked: tuple[Backend, sqlite3.Connection]) -> None:
    """Bounded, then a clean error; the epoch goes in when the lock is gone."""
    backend, other = locked
    clock = MovableClock()
    config = SinkConfig.from_options(backend.options | {"commit.attempts": "3"})
    with IcebergSink(config, clock=clock) as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(MORE)
        other.execute("BEGIN EXCLUSIVE")
        for _ in range(2):
            with pytest.raises(CommitUnknown, match="may or may not be committed") as caught:
                sink.commit_epoch(1)
            assert "Commit the same epoch again" in caught.value.hint
        assert len(clock.waits) <= 6
        other.execute("ROLLBACK")
        assert sink.commit_epoch(1).snapshot_id is not None
    assert len(rows_of(backend.load())) == 3


def test_case_30_a_lock_in_the_way_of_the_first_rows_makes_nothing(
    locked: tuple[Backend, sqlite3.Connection],
) -> None:
    backend, other = locked
    with IcebergSink(SinkConfig.from_options(backend.options), clock=MovableClock()) as sink:
        sink.begin_epoch(0)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CatalogError, match=backend.sink_id) as caught:
            sink.write_batch(ROWS)
        assert caught.value.hint
        other.execute("ROLLBACK")
        sink.write_batch(ROWS)
        sink.commit_epoch(0)
    assert len(rows_of(backend.load())) == 2


def test_case_30_a_lock_at_open_is_a_clear_error(locked: tuple[Backend, sqlite3.Connection]) -> None:
    backend, other = locked
    with IcebergSink(SinkConfig.from_options(backend.options)) as sink:
        commit(sink, 0, ROWS)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(CatalogError) as caught:
        IcebergSink(SinkConfig.from_options(backend.options), clock=MovableClock()).open()
    assert caught.value.hint
    other.execute("ROLLBACK")
    with IcebergSink(SinkConfig.from_options(backend.options)) as sink:
        assert sink.frontier() == 1


def test_a_catalog_that_is_away_at_open_is_named_without_its_password(tmp_path: Path) -> None:
    """P10, case 58."""
    secret = "canary-8d1f"
    uri = f"postgresql://ana:{secret}@127.0.0.1:1/lake"
    options = Backend("postgresql", tmp_path, sql_options(uri, tmp_path)).options
    with pytest.raises(CatalogError, match="cannot be opened") as caught:
        IcebergSink.from_options(options).open()
    error: BaseException | None = caught.value
    while error is not None:
        assert secret not in f"{error!r} {error}"
        error = error.__cause__
    assert "127.0.0.1" in str(caught.value)
    assert threading.active_count() < 50
