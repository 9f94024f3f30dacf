"""One suite over every catalog: what a sink does is the same on each.

What a back end gets wrong stands in tests/support/servers/README.md, and is marked here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from calve import Diverged, Fenced, SinkConfig, TableDiffers, TableMissing
from calve.model.batch import Batch
from calve.runtime.addresses import Address
from calve.runtime.coordinator import Coordinator
from calve.runtime.drop import Drop
from calve.runtime.epoch import Epoch
from calve.runtime.hold import Identity
from calve.table.fence import make_fence, read_progress
from tests.support.backends import Backend
from tests.support.sinks import MovableClock, commit
from tests.support.truth import commits_of_main, ordered, rows_of, summary_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})
BOTH = [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}]


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
    assert rows_of(table) == ordered(BOTH)
    assert rows_of(table, first.snapshot_id) == ordered(ROWS.to_pylist())
    assert [snapshot.snapshot_id for snapshot in commits_of_main(table)] == [
        first.snapshot_id,
        second.snapshot_id,
    ]


def test_a_table_that_exists_is_adopted_as_it_is(backend: Backend) -> None:
    catalog = backend.catalog()
    catalog.create_namespace(backend.namespace)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    uuid = catalog.create_table(backend.identifier, schema).metadata.table_uuid
    backend.insert(pa.table({"id": [2, 9], "v": ["old", "old"]}))
    with backend.sink(**{"null.keys": "allow"}) as sink:
        assert sink.schema() is not None
        commit(sink, 0, ROWS)
    table = backend.load()
    assert table.metadata.table_uuid == uuid
    assert rows_of(table) == ordered([*ROWS.to_pylist(), {"id": 9, "v": "old"}])


def test_a_table_that_differs_is_refused_with_all_that_differs(backend: Backend) -> None:
    catalog = backend.catalog()
    catalog.create_namespace(backend.namespace)
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    before = catalog.create_table(backend.identifier, schema).metadata
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


def test_layout_and_properties_are_made_with_the_table(backend: Backend) -> None:
    asked = {
        "partition.spec": "bucket(2, id)",
        "sort.order": "v DESC NULLS LAST",
        "table.prop.write.metadata.previous-versions-max": "7",
    }
    with backend.sink(**asked) as sink:
        commit(sink, 0, ROWS)
    with backend.sink(**asked) as sink:
        commit(sink, 1, MORE)
    table = backend.load()
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]"]
    assert [str(field) for field in table.sort_order().fields] == ["2 DESC NULLS LAST"]
    assert table.schema().identifier_field_names() == {"id"}
    assert table.properties["write.metadata.previous-versions-max"] == "7"
    assert rows_of(table) == ordered(BOTH)


def test_a_claim_shows_readers_nothing(backend: Backend) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
    before = backend.load()
    backend.sink().open().close()
    after = backend.load()
    old, new = before.refs(), after.refs()
    moved = {name for name in new if new[name].snapshot_id != old[name].snapshot_id}
    assert moved == ({"main"} if backend.fence == "main" else {f"calve-{backend.sink_id}"})
    assert rows_of(after) == rows_of(before)


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
    progress = read_progress(backend.load(), backend.sink_id)
    assert progress is not None
    assert (progress.generation, progress.frontier) == (2, 2)


def test_a_sink_that_is_dropped_is_fenced_and_does_not_begin_again_by_itself(backend: Backend) -> None:
    config = SinkConfig.from_options(backend.options)
    address = Address(config.catalog, backend.identifier, backend.sink_id)
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
        assert Drop(address, backend.catalog()).run().removed
        with pytest.raises(Diverged, match="was dropped"):
            commit(sink, 1, MORE)
    with pytest.raises(Diverged, match="was dropped"):
        backend.sink().open()
    assert rows_of(backend.load()) == ordered(ROWS.to_pylist())
    Drop(address, backend.catalog(), forget=True).run()
    with backend.sink() as sink:
        assert sink.frontier() == 0


def test_a_group_of_batches_is_one_commit(backend: Backend, tmp_path: Path) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
    config = SinkConfig.from_options(backend.options)
    identity = Identity(backend.identifier, backend.sink_id, "epoch")
    coordinator = Coordinator(backend.catalog(), identity, fence=make_fence(config.fence, config.sink_id))
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


def test_new_columns_and_wider_types_come_with_the_rows_that_need_them(backend: Backend) -> None:
    wide = 1 << 40
    with backend.sink(**{"schema.evolution": "true"}) as sink:
        commit(sink, 0, pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32())}))
        before = len(backend.load().metadata.metadata_log)
        commit(sink, 1, pa.table({"id": [2], "v": [wide], "größe": ["new"]}))
    table = backend.load()
    assert len(table.metadata.metadata_log) == before + 1
    first, second = commits_of_main(table)
    assert rows_of(table, first.snapshot_id) == ordered([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    assert rows_of(table, second.snapshot_id) == ordered(
        [{"id": 1, "v": 1, "größe": None}, {"id": 2, "v": wide, "größe": "new"}]
    )


def test_case_15_a_foreign_commit_is_built_upon(backend: Backend) -> None:
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
        backend.insert(pa.table({"id": [2, 7], "v": ["theirs", "theirs"]}))
        commit(sink, 1, MORE)
        assert sink.metrics().conflicts == 1
        assert sink.metrics().foreign_rows == 2
    assert rows_of(backend.load()) == ordered([*BOTH, {"id": 7, "v": "theirs"}])


def test_two_sinks_share_a_table_and_each_has_its_own_progress(backend: Backend) -> None:
    one, two = (backend.sink(**{"writer.id": name}).open() for name in ("one", "two"))
    with one, two:
        commit(one, 0, pa.table({"id": [1], "v": ["one"]}))
        for epoch in range(3):
            commit(two, epoch, pa.table({"id": [10 + epoch, 1], "v": ["two", f"two {epoch}"]}))
        commit(one, 1, pa.table({"id": [2], "v": ["one"]}))
        assert (one.frontier(), two.frontier()) == (2, 3)
    with backend.sink(**{"writer.id": "two"}) as again:
        assert again.frontier() == 3
    table = backend.load()
    if backend.fence == "tag":
        assert {"calve-one", "calve-two"} <= set(table.refs())
    of_two = [{"id": 10 + epoch, "v": "two"} for epoch in range(3)]
    assert rows_of(table) == ordered([{"id": 1, "v": "two 2"}, {"id": 2, "v": "one"}, *of_two])


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
        backend.catalog().drop_table(backend.identifier)
        with pytest.raises(TableMissing):
            commit(sink, 1, MORE)
    assert not backend.catalog().table_exists(backend.identifier)
