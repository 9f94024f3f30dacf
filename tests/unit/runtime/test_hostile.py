"""What hostile use must not do: lose rows, double them, or keep what was refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType
from requests import ConnectionError as LostConnection

from calve import (
    BadRow,
    CatalogConfig,
    CommitUnknown,
    ConfigError,
    Diverged,
    Gap,
    IcebergSink,
    PremiseBroken,
    SchemaMismatch,
    SinkConfig,
    SinkState,
    TableDiffers,
)
from calve.model.batch import Batch
from calve.model.errors import BadBatch, BadTime
from calve.runtime.clock import SystemClock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.table.build import Ready
from calve.table.catalogs import open_catalog
from tests.support.sinks import Warehouse, commit
from tests.support.truth import rows_of


def make(warehouse: Warehouse, **settings: Any) -> IcebergSink:
    catalog = SinkConfig.from_options(warehouse.options()).catalog
    return IcebergSink(SinkConfig(namespace="ns", table="t", catalog=catalog, **settings))


def held(sink: IcebergSink) -> Coordinator:
    assert sink._coordinator is not None
    return sink._coordinator


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


@pytest.mark.parametrize("partitioned", [True, False])
def test_case_43_no_row_is_lost_when_the_spec_changes_in_the_middle_of_an_epoch(
    warehouse: Warehouse, partitioned: bool
) -> None:
    layout = {"partition": "p"} if partitioned else {}
    with make(warehouse, buffer_rows_max=1, **layout) as sink:
        commit(sink, 0, pa.table({"p": [0], "x": [0]}))
        rows = [pa.table({"p": [1, 2], "x": [1, 2]}), pa.table({"p": [3], "x": [3], "n": [3]})]
        sink.begin_epoch(1)
        sink.write_batch(rows[0])
        with warehouse.catalog() as catalog:
            with catalog.load_table(("ns", "t")).update_spec() as update:
                if partitioned:
                    update.remove_field("p")
                else:
                    update.add_field("p", IdentityTransform(), "p")
            with catalog.load_table(("ns", "t")).update_schema() as update:
                update.add_column("n", LongType())
        try:
            sink.write_batch(rows[1])
            sink.commit_epoch(1)
        except PremiseBroken:
            sink.rollback_epoch(1)
            commit(sink, 1, *rows)
    assert sorted(row["x"] for row in rows_of(warehouse.load())) == [0, 1, 2, 3]


def test_rows_that_are_refused_leave_no_change_of_the_schema_behind(warehouse: Warehouse) -> None:
    with make(warehouse, mode="upsert", key="id", schema_evolution=True) as sink:
        first = {"id": [1], "n": pa.array([1], pa.int32()), "ts": pa.array([0], pa.timestamp("us"))}
        commit(sink, 0, pa.table(first))
        sink.begin_epoch(1)
        wider = {"id": [2], "n": [2], "oops": ["x"], "ts": pa.array([1], pa.timestamp("ns"))}
        with pytest.raises(BadRow):
            sink.write_batch(pa.table(wider))
        sink.write_batch(pa.table(first))
        sink.commit_epoch(1)
    schema = warehouse.load().schema()
    assert [(column.name, str(column.field_type)) for column in schema.fields] == [
        ("id", "long"),
        ("n", "int"),
        ("ts", "timestamp"),
    ]


@contextmanager
def lost_answers(sink: IcebergSink) -> Iterator[None]:
    """Commits land and nobody hears of it; reads fail."""
    catalog = sink._target.catalog
    assert catalog is not None
    real_commit, real_load = catalog.commit_table, catalog.load_table
    inside = False

    def commit_table(*arguments: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            real_commit(*arguments)
        finally:
            inside = False
        raise LostConnection

    def load_table(identifier: Any) -> Any:
        if not inside:
            raise LostConnection
        return real_load(identifier)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "commit_table", commit_table)
        patch.setattr(catalog, "load_table", load_table)
        yield


def in_doubt(warehouse: Warehouse) -> IcebergSink:
    config = make(warehouse, commit_attempts_max=2).config
    sink = IcebergSink(config, catalog=open_catalog(config.catalog)).open()
    commit(sink, 0, pa.table({"id": [0]}))
    sink.begin_epoch(1)
    sink.write_batch(pa.table({"id": [1]}))
    with lost_answers(sink), pytest.raises(CommitUnknown):
        sink.commit_epoch(1)
    sink.rollback_epoch(1)
    return sink


def test_an_epoch_that_landed_unheard_and_was_rolled_back_is_found_when_it_is_begun_again(
    warehouse: Warehouse,
) -> None:
    sink = in_doubt(warehouse)
    assert sink.begin_epoch(1) is False
    sink.commit_epoch(1)
    commit(sink, 2, pa.table({"id": [2]}))
    assert sorted(row["id"] for row in rows_of(warehouse.load())) == [0, 1, 2]


def test_what_landed_of_a_given_up_epoch_is_no_answer_to_what_was_written_in_its_place(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = in_doubt(warehouse)
    monkeypatch.setattr(Coordinator, "resolve", lambda _: None)  # as if it landed only later
    assert sink.begin_epoch(1)
    sink.write_batch(pa.table({"id": [111]}))
    with pytest.raises(Diverged, match="landed after all"):
        sink.commit_epoch(1)


def ready(sink: IcebergSink, number: int, rows: pa.Table, folder: Path) -> Ready:
    epoch = Epoch(sink.config, number, Batch(number, number + 1), folder, "w0", SystemClock())
    epoch.add(rows, held(sink).base, held(sink).refresh)
    return epoch.close_files(held(sink).base)


def test_p1_batches_of_one_commit_stand_on_those_before_them(warehouse: Warehouse, tmp_path: Path) -> None:
    with make(warehouse, mode="upsert", key="id") as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1], "v": ["a"]}))
        sink.rollback_epoch(0)  # the table is made and claimed, and has no row
        batches = [ready(sink, n, pa.table({"id": [1], "v": [str(n)]}), tmp_path) for n in range(2)]
        with pytest.raises(PremiseBroken, match=r"\[1, 2\).*now has rows"):
            held(sink).commit(batches)


def test_batches_of_one_commit_do_not_change_the_schema_each_in_its_way(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    with make(warehouse, schema_evolution=True) as sink:
        commit(sink, 0, pa.table({"id": [0]}))
        batches = [
            ready(sink, 1, pa.table({"id": [1], "a": ["a"]}), tmp_path),
            ready(sink, 2, pa.table({"id": [2], "b": ["b"]}), tmp_path),
        ]
        with pytest.raises(PremiseBroken, match="an earlier batch"):
            held(sink).commit(batches)


def test_p9_a_buffered_slice_does_not_keep_what_it_was_cut_from(warehouse: Warehouse) -> None:
    with make(warehouse) as sink:
        sink.begin_epoch(0)
        before = pa.total_allocated_bytes()
        for number in range(20):
            sink.write_batch(pa.table({"x": pa.array(range(number, 500_000 + number))}).slice(7, 1))
        assert pa.total_allocated_bytes() - before < 4_000_000  # one of them, at the most


def test_deletes_before_there_is_a_table_need_only_their_key(warehouse: Warehouse) -> None:
    with make(warehouse, mode="upsert", key="id", partition="day(ts)", sequence_by="seq") as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1], "seq": [9], "_op": ["d"]}))
        rows = {"id": [1, 2], "seq": [5, 5], "ts": pa.array([0, 0], pa.timestamp("us")), "_op": ["c", "c"]}
        sink.write_batch(pa.table(rows))
        sink.commit_epoch(0)
    assert [row["id"] for row in rows_of(warehouse.load())] == [2]  # 1 was deleted later, by its sequence


def test_a_tie_that_a_later_change_overtakes_is_none_also_when_the_schema_grows(warehouse: Warehouse) -> None:
    with make(warehouse, mode="upsert", key="id", sequence_by="s", schema_evolution=True) as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1, 1], "s": [1, 1], "v": [1, 2]}))
        sink.write_batch(pa.table({"id": [1], "s": [2], "v": [3], "w": ["new"]}))
        sink.commit_epoch(0)
    (row,) = rows_of(warehouse.load())
    assert (row["v"], row["w"]) == (3, "new")


def test_deletes_alone_promote_the_columns_that_they_show(warehouse: Warehouse) -> None:
    with make(warehouse, mode="upsert", key="id", schema_evolution=True) as sink:
        commit(sink, 0, pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
        commit(sink, 1, pa.table({"id": [2**40], "_op": ["d"]}))
    assert str(warehouse.load().schema().find_type("id")) == "long"


def test_at_least_once_never_goes_on_as_exactly_once(warehouse: Warehouse) -> None:
    """A replay moves such a frontier past epochs that never came: exactly once would skip them."""
    with make(warehouse, delivery="at-least-once") as sink:
        for _ in range(3):
            commit(sink, 0, pa.table({"id": [0]}))
    with pytest.raises(Diverged, match="at least once"):
        make(warehouse).open()


def test_inserts_cannot_be_promised_new_where_they_may_come_twice(warehouse: Warehouse) -> None:
    with pytest.raises(ConfigError, match="at-least-once"):
        make(warehouse, mode="upsert", key="id", inserts_are_new=True, delivery="at-least-once")


def test_an_epoch_whose_rows_were_interrupted_on_their_way_cannot_be_committed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Epoch) -> None:
        raise KeyboardInterrupt

    with make(warehouse) as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1]}))
        with monkeypatch.context() as patch:
            patch.setattr(Epoch, "_open_stream", interrupt)
            with pytest.raises(KeyboardInterrupt):
                sink.flush()
        with pytest.raises(SinkState, match="lost rows"):
            sink.commit_epoch(0)
        sink.rollback_epoch(0)
        commit(sink, 0, pa.table({"id": [1]}))
    assert len(rows_of(warehouse.load())) == 1


def test_a_spool_that_could_not_be_reshaped_leaves_nothing_on_disk(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    folder = tmp_path / "spill"
    settings = {"memory_bytes_max": 32 * 2**20, "spill_folder": str(folder), "schema_evolution": True}
    with make(warehouse, mode="upsert", key="id", **settings) as sink:
        sink.begin_epoch(0)
        many = pa.array(range(400_000))
        sink.write_batch(pa.table({"id": many, "v": many}))
        sink.flush()
        assert os.listdir(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Epoch, "_shaped", lambda *_: (_ for _ in ()).throw(RuntimeError))
            with pytest.raises(RuntimeError):
                sink.write_batch(pa.table({"id": [1], "v": [1], "w": ["new"]}))
        sink.rollback_epoch(0)
        assert not os.listdir(folder)


def test_p3_an_epoch_whose_caller_was_interrupted_after_it_landed_is_not_committed_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with make(warehouse) as sink:
        commit(sink, 0, pa.table({"id": [0]}))
        sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": [1]}))
        with monkeypatch.context() as patch:
            patch.setattr(IcebergSink, "_finish", interrupt)
            with pytest.raises(KeyboardInterrupt):
                sink.commit_epoch(1)
        sink.commit_epoch(1)
        commit(sink, 2, pa.table({"id": [2]}))
    assert sorted(row["id"] for row in rows_of(warehouse.load())) == [0, 1, 2]


def test_p3_a_commit_that_landed_and_changed_the_table_is_known_again_after_an_interruption(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base shows the commit, and the run has not taken note of it: its premises are broken by itself."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with make(warehouse, schema_evolution=True) as sink:
        commit(sink, 0, pa.table({"id": [0]}))
        sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": [1], "new": ["x"]}))
        with monkeypatch.context() as patch:
            patch.setattr(Coordinator, "_landed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                sink.commit_epoch(1)
        sink.commit_epoch(1)
        commit(sink, 2, pa.table({"id": [2], "new": ["y"]}))
    assert sorted(row["id"] for row in rows_of(warehouse.load())) == [0, 1, 2]


def test_p3_the_same_batch_is_committed_once_and_another_below_the_frontier_never(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    with make(warehouse) as sink:
        commit(sink, 0, pa.table({"id": [0]}))
        batch = ready(sink, 1, pa.table({"id": [1]}), tmp_path)
        first = held(sink).commit([batch])
        assert held(sink).commit([batch]) == first
        gap = ready(sink, 5, pa.table({"id": [5]}), tmp_path)
        with pytest.raises(Gap):
            held(sink).commit([gap])
        below = ready(sink, 0, pa.table({"id": [9]}), tmp_path)
        with pytest.raises(Diverged):
            held(sink).commit([below])
    assert sorted(row["id"] for row in rows_of(warehouse.load())) == [0, 1]


@pytest.mark.parametrize("changed", [{}, {"mode": "upsert", "key": "v", "null_keys": "allow"}])
def test_a_sink_never_goes_on_in_another_mode_or_under_another_key(
    warehouse: Warehouse, changed: dict[str, Any]
) -> None:
    with make(warehouse, mode="upsert", key="id", null_keys="allow") as sink:
        commit(sink, 0, pa.table({"id": [1], "v": ["a"]}))
    with pytest.raises(TableDiffers, match=r"upsert \(id\)"):
        make(warehouse, **changed).open()


def test_calls_with_values_of_a_wrong_type_are_refused_with_what_to_give(warehouse: Warehouse) -> None:
    wrong: Any = [{"id": 1}]
    with pytest.raises(ConfigError, match="a mapping"):
        IcebergSink.from_options(wrong)
    with pytest.raises(ConfigError, match="from_options"):
        IcebergSink(wrong)
    with make(warehouse) as sink:
        sink.begin_epoch(0)
        with pytest.raises(SchemaMismatch, match="from_pylist"):
            sink.write_batch(wrong)
        for epoch in ("0", 0.0):
            with pytest.raises(BadTime):
                sink.commit_epoch(epoch)  # type: ignore[arg-type]
        sink.rollback_epoch(0)
        with pytest.raises(BadTime):
            sink.begin_epoch(1, after="x")  # type: ignore[arg-type]


def test_p10_a_login_with_an_at_sign_is_refused_before_a_driver_cuts_it() -> None:
    with pytest.raises(ConfigError) as refused:
        CatalogConfig(uri="postgresql://u:hun@Ter2@h/db", warehouse="w")
    assert "%40" in refused.value.hint
    assert "Ter2" not in str(refused.value)


def test_attempts_and_patience_are_as_configured(warehouse: Warehouse) -> None:
    with make(warehouse, commit_attempts_max=7, commit_timeout_ms=12_345) as sink:
        commit(sink, 0, pa.table({"id": [0]}))
        assert (held(sink).policy.attempts_max, held(sink).policy.patience_ms) == (7, 12_345)


def test_p9_deletes_that_come_before_there_is_a_table_are_held_up_to_the_memory_limit(
    warehouse: Warehouse,
) -> None:
    deletes = pa.table({"id": range(2_500_000), "_op": pa.repeat("delete", 2_500_000)})
    with make(warehouse, mode="upsert", key="id", memory_bytes_max=32 * 2**20) as sink:
        sink.begin_epoch(0)
        sink.write_batch(deletes)
        with pytest.raises(BadBatch, match=r"memory\.limit"):
            sink.write_batch(deletes)
        sink.rollback_epoch(0)
        commit(sink, 0, pa.table({"id": [1]}))
    assert [row["id"] for row in rows_of(warehouse.load())] == [1]
