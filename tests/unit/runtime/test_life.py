"""The life of a sink: opened once, used by one thread at a time, and whole after every refusal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import event

import calve.runtime.target
from calve import ConfigError, IcebergSink, SinkState, TableDiffers
from calve.runtime.epoch import Epoch
from calve.runtime.health import Health
from calve.table.catalogs import open_catalog
from tests.support.sinks import Warehouse, commit
from tests.support.truth import ordered, rows_of, snapshots_of_main, summary_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})

CALLS: dict[str, Callable[[IcebergSink], object]] = {
    "open": lambda sink: sink.open(),
    "begin_epoch": lambda sink: sink.begin_epoch(1),
    "write_batch": lambda sink: sink.write_batch(ROWS),
    "flush": lambda sink: sink.flush(),
    "commit_epoch": lambda sink: sink.commit_epoch(0),
    "rollback_epoch": lambda sink: sink.rollback_epoch(0),
    "close": lambda sink: sink.close(),
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


# -- one thread at a time --------------------------------------------------------------------------


def test_a_call_while_another_thread_is_in_one_is_refused_and_changes_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave, add = Event(), Event(), Epoch.add

    def slow(self: Epoch, *arguments: Any) -> int:
        entered.set()
        assert leave.wait(60)
        return add(self, *arguments)

    monkeypatch.setattr(Epoch, "add", slow)
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        writer = Thread(target=sink.write_batch, args=(ROWS,), name="rows")
        writer.start()
        assert entered.wait(60)
        for name, call in CALLS.items():
            with pytest.raises(
                SinkState, match=f"^{name} was called .* write_batch in thread rows"
            ) as caught:
                call(sink)
            assert "writer.id" in caught.value.hint
        assert sink.health_check().health is Health.HEALTHY, "whoever looks is not in the way"
        assert (sink.metrics().rows_written, sink.frontier()) == (0, 0)
        leave.set()
        writer.join()
        assert sink.commit_epoch(0).rows == 2
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_threads_that_share_a_sink_are_told_and_never_fence_one_another(warehouse: Warehouse) -> None:
    committed: list[int] = []
    errors: list[BaseException] = []
    together = Barrier(4)

    def stream(sink: IcebergSink, first: int) -> None:
        together.wait()
        for epoch in range(first, 40, 4):
            try:
                sink.begin_epoch(epoch)
                sink.write_batch(pa.table({"id": [epoch]}))
                if not sink.commit_epoch(epoch).skipped:
                    committed.append(epoch)
            except SinkState:
                continue
            except BaseException as error:  # noqa: BLE001 (whatever it is, the test shows it)
                errors.append(error)

    with warehouse.sink() as sink:
        threads = [Thread(target=stream, args=(sink, first)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sink.health_check().health is Health.HEALTHY
    snapshots = snapshots_of_main(warehouse.load())
    uppers = [int(summary_of(snapshot)["calve.frontier"]) for snapshot in snapshots]
    assert uppers == [epoch + 1 for epoch in sorted(committed)]


def test_a_signal_handler_cannot_call_into_a_call(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = Epoch.flush

    def interrupted(self: Epoch) -> None:
        signal.raise_signal(signal.SIGUSR1)
        flush(self)

    with warehouse.sink() as sink:
        refused: list[SinkState] = []

        def close(*_: object) -> None:
            with pytest.raises(SinkState) as caught:
                sink.close()
            refused.append(caught.value)

        before = signal.signal(signal.SIGUSR1, close)
        try:
            sink.begin_epoch(0)
            sink.write_batch(ROWS)
            with monkeypatch.context() as patch:
                patch.setattr(Epoch, "flush", interrupted)
                sink.flush()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert len(refused) == 1
        assert sink.commit_epoch(0).rows == 2


# -- open ------------------------------------------------------------------------------------------


def test_a_sink_that_cannot_be_opened_gives_its_catalog_back(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    closed: list[int] = []

    def watched(config: Any) -> Any:
        catalog = open_catalog(config)
        event.listen(catalog.engine, "close", lambda *_: closed.append(1))  # type: ignore[attr-defined]
        return catalog

    monkeypatch.setattr(calve.runtime.target, "open_catalog", watched)
    other = warehouse.sink(partition_spec="id")
    for opened in (1, 2):
        with pytest.raises(TableDiffers):
            other.open()
        assert len(closed) >= opened
    assert repr(other) == "<IcebergSink ns.t created>"


@pytest.mark.parametrize("below", ["", "below", "far/below"])
def test_a_spill_folder_that_is_none_is_refused_when_the_sink_is_opened(
    warehouse: Warehouse, tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / below
    with pytest.raises(ConfigError, match=f"'spill.folder'.*{folder}") as caught:
        warehouse.upsert(spill_folder=str(folder)).open()
    assert "may write" in caught.value.hint
    assert not warehouse.folder.exists(), "nothing was made"


def test_a_spill_folder_that_nobody_may_write_to_is_refused_when_the_sink_is_opened(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("calve.runtime.spill.tempfile.TemporaryFile", denied)
    with pytest.raises(ConfigError, match="Permission denied"):
        warehouse.upsert(spill_folder=str(tmp_path)).open()
    with warehouse.upsert():
        pass  # the system's own folder is taken on trust: most sinks never need it


def test_a_spill_folder_that_is_not_there_is_not_made_before_it_is_needed(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "there", tmp_path / "far" / "spill"):
        with warehouse.upsert(spill_folder=str(folder)) as sink:
            commit(sink, sink.frontier(), ROWS)
    assert list((tmp_path / "there").iterdir()) == []
    assert not (tmp_path / "far").exists()


@pytest.mark.parametrize(
    "option, says",
    [
        ("location", "location: 'hdfs://bucket/t'"),
        ("table.prop.write.data.path", "'write.data.path'"),
        ("table.prop.write.metadata.path", "'write.metadata.path'"),
    ],
)
def test_a_place_in_a_store_that_is_not_there_yet_is_refused_before_anything_is_made(
    warehouse: Warehouse, option: str, says: str
) -> None:
    sink = IcebergSink.from_options({**warehouse.options(), option: "hdfs://bucket/t"})
    with pytest.raises(ConfigError, match=says) as caught:
        sink.open()
    assert "s3:" in caught.value.hint
    assert not warehouse.folder.exists()


def test_a_warehouse_in_a_store_that_is_not_there_yet_gets_no_namespace(warehouse: Warehouse) -> None:
    warehouse.folder.mkdir()
    options = warehouse.options() | {"catalog.uri": warehouse.uri, "warehouse": "hdfs://bucket/w"}
    with IcebergSink.from_options(options) as sink:
        sink.begin_epoch(0)
        with pytest.raises(ConfigError, match="warehouse: 'hdfs://bucket/w/ns/t'"):
            sink.write_batch(ROWS)
    with warehouse.catalog() as catalog:
        assert catalog.list_namespaces() == []


def test_a_table_whose_data_goes_to_a_store_that_is_not_there_yet_is_not_claimed(
    warehouse: Warehouse,
) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    with warehouse.catalog() as catalog, catalog.load_table(("ns", "t")).transaction() as change:
        change.set_properties({"write.data.path": "hdfs://bucket/t"})
    before = warehouse.load().metadata
    with pytest.raises(calve.StoreError, match="hdfs://bucket/t"):
        warehouse.sink().open()
    assert warehouse.load().metadata == before
