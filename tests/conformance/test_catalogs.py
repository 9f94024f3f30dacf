"""One suite over every catalog: SQLite, in memory, PostgreSQL; and one that keeps no tags, with the fence on
main."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve import (
    CatalogError,
    CommitUnknown,
    Fenced,
    IcebergSink,
    SinkConfig,
    TableDiffers,
    TableMissing,
)
from calve.model.batch import Batch
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.hold import Identity
from calve.table.catalogs import open_catalog
from calve.table.fence import make_fence, read_progress
from tests.support.sinks import NAME, MovableClock, commit
from tests.support.tagless import tagless
from tests.support.truth import ordered, rows_of, snapshots_of_main, summary_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})


@dataclass
class Backend:
    """A catalog that sinks and others are let into."""

    name: str
    folder: Path
    uri: str | None = None
    shared: Catalog | None = None
    fence: str = "tag"
    opened: list[Catalog] = field(default_factory=list)

    @property
    def options(self) -> dict[str, object]:
        common: dict[str, object] = {
            "namespace": "ns",
            "table.name": "t",
            "write.mode": "upsert",
            "equality.delete.columns": "id",
            "catalog.type": "memory" if self.uri is None else "sql",
            "warehouse": str(self.folder / "warehouse"),
            "fence": self.fence,
        }
        return common if self.uri is None else common | {"catalog.uri": self.uri}

    def sink(self, **options: object) -> IcebergSink:
        config = SinkConfig.from_options(self.options | options)
        return IcebergSink(config, catalog=self.shared)

    def catalog(self) -> Catalog:
        if self.shared is not None:
            return self.shared
        catalog = open_catalog(SinkConfig.from_options(self.options).catalog)
        self.opened.append(catalog)
        return catalog

    def load(self) -> Table:
        return self.catalog().load_table(NAME)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    from tests.support.postgres import postgres

    with postgres() as uri:
        yield uri


@pytest.fixture(
    params=[
        "sqlite",
        "sqlite, fence on main",
        "without tags, fence on main",
        "memory",
        pytest.param("postgresql", marks=pytest.mark.servers),
    ]
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "memory":
        made = Backend("memory", tmp_path)
        made.shared = open_catalog(SinkConfig.from_options(made.options).catalog)
    elif request.param == "postgresql":
        made = Backend("postgresql", tmp_path, request.getfixturevalue("server"))
        _empty(made)
    else:
        fence = "main" if "main" in request.param else "tag"
        made = Backend(request.param, tmp_path, f"sqlite:///{tmp_path}/catalog.db", fence=fence)
        if "without tags" in request.param:
            made.shared = tagless(open_catalog(SinkConfig.from_options(made.options).catalog))
    yield made
    for catalog in (*made.opened, *filter(None, [made.shared])):
        catalog.close()


def _empty(backend: Backend) -> None:
    catalog = backend.catalog()
    if catalog.namespace_exists("ns"):
        for name in catalog.list_tables("ns"):
            catalog.drop_table(name)
        catalog.drop_namespace("ns")


def insert(backend: Backend, rows: pa.Table) -> None:
    table = backend.load()
    table.append(rows.cast(table.schema().as_arrow()))


def commits_of_main(table: Table) -> list[Snapshot]:
    """The sinks' commits on main, oldest first: with the fence on main, claims are there as well."""
    return [
        snapshot
        for snapshot in snapshots_of_main(table)
        if summary_of(snapshot).get("calve.committed") == str(snapshot.snapshot_id)
    ]


# -- the suite -------------------------------------------------------------------------------------


def test_create_commit_close_and_go_on(backend: Backend) -> None:
    with backend.sink() as sink:
        assert sink.schema() is None
        first = commit(sink, 0, ROWS)
    with backend.sink() as sink:
        assert sink.frontier() == 1
        assert not sink.begin_epoch(0)
        sink.commit_epoch(0)
        second = commit(sink, 1, MORE)
    table = backend.load()
    assert rows_of(table) == ordered([{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}])
    assert rows_of(table, first.snapshot_id) == ordered(ROWS.to_pylist())
    assert [snapshot.snapshot_id for snapshot in commits_of_main(table)] == [
        first.snapshot_id,
        second.snapshot_id,
    ]


def test_a_table_that_exists_is_adopted_as_it_is(backend: Backend) -> None:
    catalog = backend.catalog()
    catalog.create_namespace("ns")
    catalog.create_table(NAME, pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]))
    insert(backend, pa.table({"id": [2, 9], "v": ["old", "old"]}))
    with backend.sink(**{"null.keys": "allow"}) as sink:
        assert sink.schema() is not None
        commit(sink, 0, ROWS)
    assert rows_of(backend.load()) == ordered([*ROWS.to_pylist(), {"id": 9, "v": "old"}])


def test_a_table_that_differs_is_refused_with_all_that_differs(backend: Backend) -> None:
    catalog = backend.catalog()
    catalog.create_namespace("ns")
    before = catalog.create_table(NAME, pa.schema([("id", pa.int64()), ("v", pa.string())])).metadata
    asked = {
        "partition.spec": "bucket(4, id)",
        "sort.order": "v",
        "location": str(backend.folder / "elsewhere"),
    }
    with pytest.raises(TableDiffers) as caught:
        backend.sink(**asked).open()
    for what in ("key", "partition", "sort order", "location"):
        assert f"{what}: found" in caught.value.message
    assert backend.load().metadata == before


def test_a_claim_fences_the_run_before_it(backend: Backend) -> None:
    """P4, case 10."""
    first = backend.sink().open()
    commit(first, 0, ROWS)
    second = backend.sink().open()
    first.begin_epoch(1)
    first.write_batch(MORE)
    before = backend.load().metadata
    with pytest.raises(Fenced):
        first.commit_epoch(1)
    assert backend.load().metadata == before
    commit(second, 1, MORE)
    first.close()
    second.close()
    progress = read_progress(backend.load(), "ns.t")
    assert progress is not None
    assert (progress.generation, progress.frontier) == (2, 2)


def test_a_group_of_batches_is_one_commit(backend: Backend, tmp_path: Path) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
    config = SinkConfig.from_options(backend.options)
    fence = make_fence(config.fence, config.sink_id)
    coordinator = Coordinator(backend.catalog(), Identity(NAME, "ns.t", "epoch"), fence=fence)
    coordinator.claim()
    batches = []
    for number in range(1, 6):
        epoch = Epoch(config, number, Batch(number, number + 1), tmp_path, "w0", MovableClock())
        epoch.add(
            pa.table({"id": [1, 10 + number], "v": [f"v{number}", "n"]}),
            coordinator.base,
            coordinator.refresh,
        )
        batches.append(epoch.close_files(coordinator.base))
    before = len(backend.load().metadata.metadata_log)
    coordinator.commit(batches)
    table = backend.load()
    assert len(table.metadata.metadata_log) == before + 1
    chain = commits_of_main(table)[1:]
    assert [len(rows_of(table, snapshot.snapshot_id)) for snapshot in chain] == [3, 4, 5, 6, 7]
    assert [int(summary_of(snapshot)["calve.frontier"]) for snapshot in chain] == [2, 3, 4, 5, 6]


def test_case_15_a_foreign_commit_is_built_upon(backend: Backend) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
        insert(backend, pa.table({"id": [2, 7], "v": ["theirs", "theirs"]}))
        commit(sink, 1, MORE)
        assert sink.metrics().conflicts == 1
        assert sink.metrics().foreign_rows == 2
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}, {"id": 7, "v": "theirs"}]
    assert rows_of(backend.load()) == ordered(rows)


def test_case_40_progress_outlives_expiry(backend: Backend) -> None:
    for epoch in range(3):
        with backend.sink() as sink:
            assert sink.frontier() == epoch
            commit(sink, epoch, pa.table({"id": [epoch], "v": ["x"]}))
        table = backend.load()
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in kept]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(rows_of(backend.load())) == 3


def test_case_28_a_dropped_table_stops_the_sink(backend: Backend) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
        backend.catalog().drop_table(NAME)
        with pytest.raises(TableMissing):
            commit(sink, 1, MORE)
    assert not backend.catalog().table_exists(NAME)


def _race(options: dict[str, object], start: Any, sink_id: str, epochs: int) -> None:
    start.wait()
    config = SinkConfig.from_options(options | {"writer.id": sink_id, "commit.attempts": "200"})
    with IcebergSink(config) as sink:
        for epoch in range(epochs):
            sink.begin_epoch(epoch)
            sink.write_batch(pa.table({"id": [f"{sink_id}{epoch}"], "v": [epoch]}))
            sink.commit_epoch(epoch)


def test_two_processes_race_and_neither_loses_a_row(backend: Backend) -> None:
    """Cases 7 and 15: they make catalog, namespace and table at once, and commit at once."""
    if backend.shared is not None:
        pytest.skip("this catalog has one process")
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    options = backend.options
    racers = [spawn.Process(target=_race, args=(options, start, name, 3)) for name in ("one", "two")]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(100)
    assert [racer.exitcode for racer in racers] == [0, 0]
    table = backend.load()
    assert rows_of(table) == ordered({"id": f"{n}{e}", "v": e} for n in ("one", "two") for e in range(3))
    assert len(commits_of_main(table)) == 6


# -- a catalog that is locked or away --------------------------------------------------------------


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[Backend, sqlite3.Connection]]:
    """SQLite whose own patience is short, and another connection to its file."""
    backend = Backend("sqlite", tmp_path, f"sqlite:///{tmp_path}/catalog.db?timeout=0.05")
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    yield backend, other
    other.close()
    for catalog in backend.opened:
        catalog.close()


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
        with pytest.raises(CatalogError, match=r"ns\.t") as caught:
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
    options = {
        **Backend("postgresql", tmp_path, f"postgresql://ana:{secret}@127.0.0.1:1/lake").options,
    }
    with pytest.raises(CatalogError, match="cannot be opened") as caught:
        IcebergSink.from_options(options).open()
    error: BaseException | None = caught.value
    while error is not None:
        assert secret not in f"{error!r} {error}"
        error = error.__cause__
    assert "127.0.0.1" in str(caught.value)
    assert threading.active_count() < 50
