"""Rows at the door: op words, bad input, and everything that is refused before anything is made."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from calve import (
    BadKey,
    BadName,
    BadPartition,
    BadRow,
    ConfigError,
    IcebergSink,
    SchemaMismatch,
    UnknownOption,
)
from calve.model.errors import CalveError
from tests.support.sinks import Warehouse, changes, commit
from tests.support.truth import Source, check_every_snapshot, ordered, rows_of
from tests.support.workload import DELETE_WORDS, UPSERT_WORDS

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
UUIDS = pa.array([bytes(16)], pa.uuid())


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


# -- ops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_op_word_is_understood(warehouse: Warehouse, kind) -> None:
    words = [*UPSERT_WORDS, *DELETE_WORDS]
    before = pa.table({"id": list(range(len(words))), "v": ["old"] * len(words)})
    after = pa.table(
        {"id": list(range(len(words))), "v": ["new"] * len(words), "_op": pa.array(words).cast(kind)}
    )
    with warehouse.upsert() as sink:
        commit(sink, 0, before)
        commit(sink, 1, after)
    assert rows_of(warehouse.load()) == ordered({"id": i, "v": "new"} for i in range(len(UPSERT_WORDS)))


@pytest.mark.parametrize(
    "word, says",
    [
        ("x", "'x' is not an op"),
        ("", "'' is not an op"),
        ("i", "not an op"),
        (None, "the op is null"),
        ("t", "refused"),
        ("m", "refused"),
    ],
)
def test_case_54_an_unknown_op_is_refused_with_its_place_and_never_an_insert(
    warehouse: Warehouse, word: str | None, says: str
) -> None:
    """P8, and case 51 for truncate."""
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        with pytest.raises(BadRow, match=says) as caught:
            sink.write_batch(changes((1, "a", "I"), (2, "b", word)))
        assert "column '_op', row 1" in caught.value.message
        assert warehouse.files() == {}
        sink.write_batch(ROWS)
        with pytest.raises(BadRow, match="row 3"):  # rows are counted over the epoch
            sink.write_batch(changes((1, "a", "I"), (2, "b", word)))
        sink.commit_epoch(0)
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_ops_that_are_neither_text_nor_diffs_are_refused(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        with pytest.raises(SchemaMismatch, match="op column '_op' is double"):
            sink.write_batch(changes((1, "a", 1.5)))


def test_an_op_column_that_was_named_must_be_there(warehouse: Warehouse) -> None:
    with warehouse.upsert(op_column="kind") as sink:
        sink.begin_epoch(0)
        with pytest.raises(SchemaMismatch, match="'kind' is not among the incoming columns: id, v"):
            sink.write_batch(ROWS)
        sink.write_batch(changes((1, "a", "c"), names=("id", "v", "kind")))
        sink.commit_epoch(0)
    assert warehouse.load().schema().column_names == ["id", "v"]


def test_a_delete_needs_its_key_and_nothing_else(warehouse: Warehouse) -> None:
    required = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    with warehouse.upsert() as sink:
        commit(sink, 0, pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}, schema=required))
        commit(sink, 1, pa.table({"id": [1], "_op": ["d"]}))
        commit(sink, 2, pa.table({"id": [2, 4], "n": [None, 4], "_op": ["d", "c"]}))
        sink.begin_epoch(3)
        with pytest.raises(BadRow, match="column 'n', row 1: null, but the table requires a value"):
            sink.write_batch(pa.table({"id": [2, 4], "n": [None, None], "_op": ["d", "c"]}))
        sink.rollback_epoch(3)
    assert rows_of(warehouse.load()) == ordered([{"id": 3, "n": 3}, {"id": 4, "n": 4}])


def test_case_48_deletes_before_there_is_a_table_make_none(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        assert commit(sink, 0, pa.table({"id": [1], "_op": ["D"]})).snapshot_id is None
        assert not warehouse.exists()
        commit(sink, 1, ROWS)
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_a_column_with_the_sinks_own_inner_name_is_refused(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        with pytest.raises(CalveError, match="__calve_op"):
            sink.write_batch(pa.table({"id": [1], "__calve_op": [2]}))


# -- order of changes ------------------------------------------------------------------------------


def test_case_45_the_last_by_sequence_wins_not_the_last_that_came(warehouse: Warehouse) -> None:
    names = ("id", "v", "lsn", "_op")
    with warehouse.upsert(sequence_by="lsn") as sink:
        commit(sink, 0, changes((1, "late", 9, "u"), (1, "early", 2, "I"), (2, "x", 1, "I"), names=names))
        commit(sink, 1, changes((2, "x", 8, "D"), (2, "y", 5, "u"), (3, "z", 1, "I"), names=names))
    rows = [{"id": 1, "v": "late", "lsn": 9}, {"id": 3, "v": "z", "lsn": 1}]
    assert rows_of(warehouse.load()) == ordered(rows)


def test_deletes_alone_keep_their_place_in_the_sequence(warehouse: Warehouse) -> None:
    names = ("id", "v", "lsn", "_op")
    with warehouse.upsert(sequence_by="lsn") as sink:
        commit(sink, 0, changes((1, "a", 1, "I"), (2, "b", 1, "I"), names=names))
        only_deletes = pa.table({"id": [1, 2], "lsn": [5, 9], "_op": ["D", "D"]})
        commit(sink, 1, changes((1, "newer", 7, "u"), (2, "older", 7, "u"), names=names), only_deletes)
    assert rows_of(warehouse.load()) == [{"id": 1, "v": "newer", "lsn": 7}]


def test_ties_between_different_rows_are_refused_and_repeats_are_not(warehouse: Warehouse) -> None:
    """P8, case 44."""
    names = ("id", "v", "lsn", "_op")
    with warehouse.upsert(sequence_by="lsn") as sink:
        commit(sink, 0, changes((1, "same", 3, "u"), (1, "same", 3, "u"), names=names))
        sink.begin_epoch(1)
        sink.write_batch(changes((1, "this", 4, "u"), (1, "that", 4, "u"), names=names))
        with pytest.raises(BadRow, match="two different changes of key id = 1 share the sequence lsn = 4"):
            sink.commit_epoch(1)
        sink.rollback_epoch(1)
        assert rows_of(warehouse.load()) == [{"id": 1, "v": "same", "lsn": 3}]


@pytest.mark.parametrize("columns", [("id", "v"), ("id", "v", "lsn")])
def test_a_sequence_column_that_is_missing_is_refused_by_name(warehouse: Warehouse, columns) -> None:
    row = {"id": [1], "v": ["a"], "lsn": [1]}
    with warehouse.upsert(sequence_by="lns") as sink:
        sink.begin_epoch(0)
        with pytest.raises(CalveError, match="'lns'") as caught:
            sink.write_batch(pa.table({name: row[name] for name in columns}))
        assert caught.value.hint
        assert not warehouse.exists()


# -- bad input: nothing is made --------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, error, says",
    [
        ({"namespace": "../x"}, BadName, "../x"),
        ({"table.name": "../../evil"}, BadName, "evil"),
        ({"table.name": "a;b"}, BadName, "a;b"),
        ({"table.name": ""}, ConfigError, "table"),
        ({"namespace": "x" * 300}, BadName, "x"),
        ({"writer.id": "../x"}, BadName, "../x"),
        ({"write.mod": "append"}, UnknownOption, "write.mode"),
        ({"write.mode": "upsert"}, BadKey, "key"),
        ({"write.mode": "upsert", "equality.delete.columns": "list.element"}, BadName, "list.element"),
        ({"partition.spec": "weekly(ts)"}, BadPartition, "weekly"),
        ({"file.format": "orc"}, ConfigError, "orc"),
        ({"maintenance.compaction": "true"}, ConfigError, "maintenance.compaction"),
        ({"table.prop.format-version": "3"}, ConfigError, "format-version"),
    ],
)
def test_case_56_names_and_options_are_refused_before_anything_is_made(
    warehouse: Warehouse, options: dict[str, object], error: type[CalveError], says: str
) -> None:
    with pytest.raises(error) as caught:
        with IcebergSink.from_options({**warehouse.options(), **options}) as sink:
            commit(sink, 0, ROWS)
    assert says in str(caught.value)
    assert caught.value.hint
    assert not warehouse.folder.exists() or warehouse.files() == {}


def test_views_are_written_like_the_columns_that_they_view(warehouse: Warehouse) -> None:
    views = pa.array(["a", None]).cast(pa.string_view())
    with warehouse.upsert(schema_evolution=True) as sink:
        commit(sink, 0, pa.table({"id": [1, 2], "v": views}))
        commit(sink, 1, pa.table({"id": [2, 3], "v": views, "w": views}))
    assert rows_of(warehouse.load()) == ordered(
        [{"id": 1, "v": "a", "w": None}, {"id": 2, "v": "a", "w": "a"}, {"id": 3, "v": None, "w": None}]
    )


@pytest.mark.parametrize(
    "options, rows, error, says",
    [
        ({"partition.spec": "day(v)"}, {"v": ["a"]}, BadPartition, "'v' is string, which day does not take"),
        (
            {"partition.spec": "hour(d)"},
            {"d": pa.array([0], pa.date32())},
            BadPartition,
            "hour does not take",
        ),
        ({"partition.spec": "bucket(4, f)"}, {"f": [1.5]}, BadPartition, "bucket does not take"),
        ({"partition.spec": "nope"}, {"v": ["a"]}, BadPartition, "no column 'nope'"),
        ({"sort.order": "nope"}, {"v": ["a"]}, BadPartition, "no column 'nope'"),
        ({"key": "f"}, {"f": [1.5]}, BadKey, "'f' is a double"),
        ({"key": "l"}, {"l": [[1]]}, BadKey, "nested"),
        ({"key": "idd"}, {"id": [1]}, BadKey, "'idd' is not among the columns"),
        ({"key": "id"}, {"id": [1, None]}, BadRow, "column 'id', row 1: the key is null"),
        ({"key": "id,v"}, {"id": [1, 2], "v": [None, "b"]}, BadRow, "column 'v', row 0"),
        (
            {"write.mode": "changelog", "equality.delete.columns": "f"},
            {"f": [1.5]},
            BadKey,
            "'f' is a double",
        ),
        ({"write.mode": "changelog", "equality.delete.columns": "s"}, {"s": [{"a": 1}]}, BadKey, "nested"),
        ({"key": "id", "sequence.by": "s"}, {"id": [1], "s": [{"a": 1}]}, BadKey, "'s'"),
        ({"key": "id", "sequence.by": "s"}, {"id": [1], "s": UUIDS}, BadKey, "'s'"),
        ({}, {"v": pa.array([b"\xff"]).view(pa.string())}, BadRow, "column 'v', row 0"),
        (
            {},
            {"v": pa.array([b"\xff"], pa.binary_view()).view(pa.string_view())},
            BadRow,
            "column 'v', row 0",
        ),
        ({}, {"v": pa.array([1], pa.duration("s"))}, SchemaMismatch, "durations"),
        ({}, {"v": pa.array([None], pa.null())}, SchemaMismatch, "nulls alone"),
        ({}, {"v": pa.array([1], pa.timestamp("ns"))}, BadRow, "column 'v', row 0"),
        ({}, {"v\n": [1]}, BadName, "control"),
        ({}, {"V": [1], "v": [1]}, BadName, "fold case"),
        ({}, {"_file": ["a"]}, BadName, "Iceberg's own"),
        ({"parquet.dictionary": "id, vv"}, {"id": [1], "v": ["a"]}, ConfigError, "names 'vv'"),
        ({"table.prop.write.metadata.metrics.default": "some"}, {"v": ["a"]}, ConfigError, "metrics.default"),
        (
            {"table.prop.write.parquet.compression-codec": "zip"},
            {"v": ["a"]},
            ConfigError,
            "compression-codec",
        ),
    ],
)
def test_first_rows_that_do_not_fit_make_no_table_and_no_file(
    warehouse: Warehouse,
    options: dict[str, object],
    rows: dict[str, object],
    error: type[CalveError],
    says: str,
) -> None:
    """Case 54: the place, the reason and the next step, before a file is written or a table created."""
    given = warehouse.options() | {name: value for name, value in options.items() if name != "key"}
    if "key" in options:
        given |= {"write.mode": "upsert", "equality.delete.columns": options["key"]}
    with IcebergSink.from_options(given) as sink:
        sink.begin_epoch(0)
        with pytest.raises(error) as caught:
            sink.write_batch(pa.table(rows))
        assert says in caught.value.message
        assert caught.value.hint
        assert warehouse.files() == {}
        assert not warehouse.exists()


def test_a_dictionary_for_a_column_that_the_table_lacks_is_refused_before_it_is_claimed(
    warehouse: Warehouse,
) -> None:
    options = {"parquet.dictionary": "v, vv"}
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    before, files = warehouse.load().metadata, warehouse.files()
    with pytest.raises(ConfigError, match=r"parquet\.dictionary names 'vv'") as caught:
        IcebergSink.from_options(warehouse.options() | options).open()
    assert caught.value.hint == "Did you mean 'v'?"
    assert (warehouse.load().metadata, warehouse.files()) == (before, files)


def test_a_dictionary_for_a_column_that_comes_with_the_rows_is_taken(warehouse: Warehouse) -> None:
    options = {"parquet.dictionary": "new", "schema.evolution": True}
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    with IcebergSink.from_options(warehouse.options() | options) as sink:
        sink.begin_epoch(1)
        files = warehouse.files()
        with pytest.raises(ConfigError, match=r"parquet\.dictionary names 'new'"):
            sink.write_batch(ROWS)
        assert warehouse.files() == files
        sink.write_batch(ROWS.append_column("new", pa.array(["x", "y"])))
        assert sink.commit_epoch(1).rows == 2


def test_rows_are_numbered_from_the_first_of_the_epoch_also_before_there_is_a_table(
    warehouse: Warehouse,
) -> None:
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1, 2, 3], "_op": ["d", "d", "d"]}))
        with pytest.raises(BadRow, match="column 'id', row 4: the key is null"):
            sink.write_batch(pa.table({"id": [1, None], "_op": ["d", "d"]}))
        sink.write_batch(pa.table({"id": [4], "_op": ["d"]}))
        with pytest.raises(BadRow, match="column 'id', row 4: the key is null"):
            sink.write_batch(pa.table({"id": [None, 8], "v": ["a", "b"]}))
        with pytest.raises(BadRow, match="'_op', row 4"):
            sink.write_batch(changes((9, "a", "?")))
        sink.write_batch(ROWS)
        with pytest.raises(BadRow, match="column 'id', row 6: the key is null"):
            sink.write_batch(pa.table({"id": [None], "v": ["a"]}))
        assert sink.commit_epoch(0).rows == 6
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_deletes_that_do_not_fit_the_table_that_rows_ask_for_are_not_lost_in_silence(
    warehouse: Warehouse,
) -> None:
    """P8: they are refused with the first rows, before a table is made, and again until they are given up."""
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": ["one"], "_op": ["d"]}))
        for _ in range(2):
            with pytest.raises(SchemaMismatch, match="column 'id' is string"):
                sink.write_batch(ROWS)
        assert not warehouse.exists()
        sink.rollback_epoch(0)
        commit(sink, 0, ROWS)
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_deletes_that_wait_are_not_forgotten_when_another_run_makes_the_table(warehouse: Warehouse) -> None:
    """P8: the key of its table is of another type than theirs."""
    texts = pa.table({"id": ["x"], "v": ["a"]})
    with warehouse.upsert(writer_id="ours") as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [1], "_op": ["d"]}))
        with warehouse.upsert(writer_id="theirs") as other:
            commit(other, 0, texts)
        for rows in (ROWS, texts):
            with pytest.raises(SchemaMismatch, match="column 'id'"):
                sink.write_batch(rows)
        with pytest.raises(SchemaMismatch, match="column 'id'"):
            sink.commit_epoch(0)
        sink.rollback_epoch(0)
        commit(sink, 0, texts)


def test_a_duplicate_column_is_refused(warehouse: Warehouse) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with warehouse.sink() as sink:
        sink.begin_epoch(0)
        with pytest.raises(SchemaMismatch, match="column 'id' stands twice"):
            sink.write_batch(twice)
        assert warehouse.files() == {}


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize(
    "rows, error, says",
    [
        ({"id": [1], "n": [1], "extra": [1]}, SchemaMismatch, "'extra'"),
        ({"id": [1], "n": [2**40]}, (SchemaMismatch, BadRow), "'n'"),
        ({"id": [1], "n": ["text"]}, SchemaMismatch, "'n'"),
        ({"id": [None, 1], "n": pa.array([1, 1], pa.int32())}, BadRow, "column 'id', row 0"),
        ({"n": pa.array([1], pa.int32())}, SchemaMismatch, "'id'"),
        ({"id": [1], "d": [Decimal("1234.567")]}, SchemaMismatch, "'d'"),
        ({"id": [1], "ID": [1]}, (SchemaMismatch, BadName), "ID"),
    ],
)
def test_later_rows_that_do_not_fit_the_table_leave_it_and_the_epoch_as_they_were(
    warehouse: Warehouse, mode: str, rows: dict[str, object], error: type[CalveError], says: str
) -> None:
    """Case 54."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("n", pa.int32()), ("d", pa.decimal128(5, 2))])
    good = pa.table({"id": [1], "n": [1], "d": [Decimal("1.00")]}, schema=schema)
    options = {} if mode == "append" else {"equality_delete_columns": "id"}
    with warehouse.sink(write_mode=mode, **options) as sink:
        commit(sink, 0, good)
        files, metadata = warehouse.files(), warehouse.load().metadata
        sink.begin_epoch(1)
        with pytest.raises(error) as caught:
            sink.write_batch(pa.table(rows))
        assert says in caught.value.message
        assert caught.value.hint
        assert warehouse.files() == files
        assert warehouse.load().metadata == metadata
        sink.write_batch(good)  # the epoch goes on without them
        assert sink.commit_epoch(1).rows == 1


def test_wider_types_that_fit_the_table_are_taken_by_value(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, pa.table({"id": pa.array([1], pa.int64()), "f": pa.array([1.5], pa.float64())}))
        commit(sink, 1, pa.table({"id": pa.array([2], pa.uint8()), "f": pa.array([2.5], pa.float32())}))
    assert rows_of(warehouse.load()) == ordered([{"id": 1, "f": 1.5}, {"id": 2, "f": 2.5}])


# -- keys ------------------------------------------------------------------------------------------


def test_case_46_insert_and_delete_in_one_epoch_leave_nothing(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        assert commit(sink, 0, changes((1, "a", "I"), (1, "a", "D"))).snapshot_id is None
        commit(sink, 1, changes((2, "b", "I")))
        commit(sink, 2, changes((2, "b", "D"), (3, "c", "I"), (3, "c", "D")))
    assert rows_of(warehouse.load()) == []


def test_case_47_a_changed_key_is_a_delete_and_an_insert(warehouse: Warehouse) -> None:
    source = Source(("id",))
    steps = [
        changes((1, "a", "I")),
        changes((1, "a", "-U"), (2, "a", "+U")),
        changes((2, "a", "D"), (1, "b", "I")),
    ]
    with warehouse.upsert(partition_spec="bucket(4, id)") as sink:
        for epoch, rows in enumerate(steps):
            commit(sink, epoch, rows)
            source.apply(epoch, rows.to_pylist())
    assert check_every_snapshot(warehouse.load(), source) == 3


def test_case_48_a_delete_of_a_key_that_was_never_there_is_harmless(warehouse: Warehouse) -> None:
    with warehouse.upsert(partition_spec="v") as sink:
        commit(sink, 0, ROWS)
        commit(sink, 1, changes((77, "a", "D")))
        commit(sink, 2, changes((78, "x", "D"), (1, "c", "u")))
    assert rows_of(warehouse.load()) == ordered([{"id": 1, "v": "c"}, {"id": 2, "v": "b"}])


def test_case_49_a_hundred_thousand_changes_of_one_key_are_one_row(warehouse: Warehouse) -> None:
    count = 100_000
    rows = pa.table({"id": pa.repeat(pa.scalar(1), count), "v": pa.array(range(count))})
    with warehouse.upsert() as sink:
        for epoch in range(2):
            sink.begin_epoch(epoch)
            for record_batch in rows.to_batches(max_chunksize=25_000):
                sink.write_batch(record_batch)
            assert sink.commit_epoch(epoch).files == (1 if epoch == 0 else 2)
    assert rows_of(warehouse.load()) == [{"id": 1, "v": count - 1}]


def test_case_67_a_key_that_moves_through_three_partitions_in_one_epoch_is_one_row(
    warehouse: Warehouse,
) -> None:
    source = Source(("id",))
    with warehouse.upsert(partition_spec="v") as sink:
        for epoch, moves in enumerate([["p", "q", "r"], ["q", "p"], ["r"], ["p", "q", "p"]]):
            rows = changes(*((1, move, "u") for move in moves), (2, "p", "u"))
            commit(sink, epoch, rows)
            source.apply(epoch, rows.to_pylist())
    table = warehouse.load()
    assert check_every_snapshot(table, source) == 4
    assert any(not spec.fields for spec in table.specs().values()), "deletes are global"
