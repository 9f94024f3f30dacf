"""Recovery: what a lost, older or foreign checkpoint and a table that was put back do to a query.

Real queries of Spark; between two runs the checkpoint or the table is changed by hand, as a fault would leave
it. The truth is computed from the rows in plain Python, and every snapshot is compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import calve
from calve.model.errors import (
    BadRow,
    ConfigError,
    Diverged,
    Fenced,
    RolledBack,
    TableMissing,
    TableReplaced,
)
from tests.support.flow import Crash, Flow
from tests.support.lake import NAMESPACE, Lake
from tests.support.pairs import pairs
from tests.support.readers import DuckReader
from tests.support.spark import has_iceberg

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
MARKED = SCHEMA.append(pa.field("resolved", pa.int64()))
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
APPEND = {"mode": "append"}
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2}
BOTH: dict[str, dict[str, Any]] = {"numbered": {}, "timed": {**MAXIMUM, "frontier_delay": 0}}


def by_day(name: str) -> list[Any]:
    """This stream every day, the other one at night: where what is tested asks no more of a time than that
    there is one. Of neighbours one has the one by day, and the other the other."""
    return [
        pytest.param(stream, id=other, marks=() if other == name else (pytest.mark.nightly,))
        for other, stream in BOTH.items()
    ]


MARKS = {"time_column": "lsn", "frontier": "mark", "mark_column": "resolved"}

MakeFlow = Callable[..., Flow]


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> MakeFlow:
    def make(sink: dict[str, Any] = UPSERT, schema: pa.Schema = SCHEMA, **stream: Any) -> Flow:
        return Flow(spark, lake, table_name[-60:], tmp_path, schema, dict(sink), stream)

    return make


def change(id_: int | None, v: str | None, lsn: int | None, op: str | None = "u") -> dict[str, Any]:
    return {"id": id_, "v": v, "lsn": lsn, "_op": op}


def put_some(flow: Flow, micro_batches: int, first: int = 0) -> None:
    """Micro-batches of four changes: 0 to 3, 4 to 7, …; keys return, and some are deleted."""
    for number in range(first, first + micro_batches):
        at = number * 4
        flow.put(
            change(1, f"a{number}", at),
            change(2 + number % 2, f"b{number}", at + 1),
            change(2, None, at + 2, "D"),
            change(10 + number, f"c{number}", at + 3, "I"),
        )


# -- a micro-batch that comes again ---------------------------------------------------------------


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param({}, id="numbered", marks=pytest.mark.nightly),  # by day in test_stateful.py
        pytest.param(MAXIMUM, id="timed"),
    ],
)
def test_case_5_a_micro_batch_that_landed_and_comes_again_changes_nothing(
    flow: MakeFlow, stream: dict[str, Any], duckdb: DuckReader
) -> None:
    one = flow(**stream)
    put_some(one, 3)
    one.run()
    before = one.shown()
    one.forget_commit(2)
    (told,) = one.run()
    assert (told.micro_batch, told.batches_committed) == (2, 0)
    assert one.shown() == before
    put_some(one, 1, first=3)
    one.run()
    one.check(duckdb)


def test_case_66_a_micro_batch_that_landed_and_whose_manifest_is_lost_has_no_late_row(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    one = flow(**MAXIMUM)
    put_some(one, 3)
    one.run()
    before = one.shown()
    one.forget_commit(2)
    one.forget_stash(2)
    (told,) = one.run()
    assert (told.rows_late, told.rows_replayed, told.batches_committed) == (0, 1, 0)
    assert one.shown() == before
    put_some(one, 1, first=3)
    one.run()
    one.check(duckdb)


# -- a lost checkpoint ----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", by_day("numbered"))
def test_case_12_a_new_checkpoint_is_refused_until_told_which_one_it_goes_on_for(
    flow: MakeFlow, stream: dict[str, Any]
) -> None:
    one = flow(**stream)
    put_some(one, 2)
    one.run()
    before, generation = one.shown(), one.generation()
    lost = one.lose_checkpoint()
    with pytest.raises(Diverged, match=f"written from checkpoint {lost}") as refused:
        one.run()
    assert f".replaces_checkpoint({lost!r})" in refused.value.hint
    with pytest.raises(Diverged, match="this query replaces checkpoint"):
        one.run(replaces_checkpoint="00000000-0000-4000-8000-000000000000")
    assert one.shown() == before
    assert one.generation() == generation, "a refused query fences nobody"


@pytest.mark.parametrize("kind", [pytest.param("maximum", marks=pytest.mark.nightly), "mark"])
def test_case_12_a_new_checkpoint_that_reads_all_again_goes_on_from_the_table_s_frontier(
    flow: MakeFlow, kind: str, duckdb: DuckReader
) -> None:
    """Also over several micro-batches: none of the rows that the table has is taken for late (66)."""
    one = flow(**MAXIMUM) if kind == "maximum" else flow(schema=MARKED, **MARKS)
    for number in range(4):
        put_some(one, 1, first=number)
        if kind == "mark":
            one.put({"resolved": number * 4 + 2})
    one.run()
    before = one.check(duckdb)
    lost = one.lose_checkpoint()
    put_some(one, 1, first=4)
    if kind == "mark":
        one.put({"resolved": 17})
    told = one.run(replaces_checkpoint=lost)
    assert [progress.rows_late for progress in told] == [0] * len(told)
    assert sum(progress.rows_replayed for progress in told) > 0
    after = one.check(duckdb)
    assert after[: len(before)] == before
    assert after[-1][1] == 17
    # From its first commit on the new checkpoint is the one that the table knows.
    put_some(one, 1, first=5)
    one.run()
    one.check(duckdb)


def test_case_12_a_numbered_stream_that_replaces_a_checkpoint_begins_its_numbers_at_the_frontier(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    one = flow()
    put_some(one, 2)
    one.run()
    lost = one.lose_checkpoint()
    one.sent.clear()
    for path in (one.folder / "source").iterdir():
        path.unlink()
    put_some(one, 2, first=2)
    one.run(replaces_checkpoint=lost)
    assert [shown.bounds for shown in one.shown()] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    one.forget_commit(1)
    one.run()
    assert len(one.shown()) == 4


def test_case_12_what_waited_beside_the_checkpoint_is_gone(flow: MakeFlow) -> None:
    one = flow(**MAXIMUM)
    put_some(one, 2)
    one.run()
    generation = one.generation()
    one.forget_stash()
    put_some(one, 1, first=2)
    with pytest.raises(Diverged, match="there is no calve/stash in it") as refused:
        one.run()
    assert "Restore the whole checkpoint folder" in refused.value.hint
    assert one.generation() == generation


# -- a checkpoint that is older than the table ----------------------------------------------------


def test_case_13_with_a_time_of_its_own_the_table_wins_over_an_older_checkpoint(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """And case 66: over several micro-batches of replay no row is late."""
    one = flow(**MAXIMUM)
    put_some(one, 2)
    one.run()
    one.back_up()
    put_some(one, 3, first=2)
    one.run()
    before = one.check(duckdb)
    one.restore()
    put_some(one, 1, first=5)
    told = one.run()
    assert [progress.rows_late for progress in told] == [0, 0, 0, 0]
    after = one.check(duckdb)
    assert after[: len(before)] == before
    assert after[-1][1] == 21


def test_case_13_late_rows_are_still_told_from_replayed_ones_under_an_older_checkpoint(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """P8: what was late the first time is late the second time."""
    one = flow(**MAXIMUM, on_bad_row="quarantine")
    put_some(one, 2)
    one.run()
    one.back_up()
    late = change(7, "late", 1)
    one.put(change(8, "in time", 9), late)
    put_some(one, 1, first=3)
    assert [progress.rows_late for progress in one.run()] == [1, 0]
    one.restore()
    told = one.run()
    assert [progress.rows_late for progress in told] == [1, 0]
    one.check(duckdb, without=[late])
    assert len(quarantined(one)) == 1


def test_case_13_the_last_micro_batch_with_equal_offsets_is_skipped(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    one = flow()
    put_some(one, 2)
    one.run()
    one.back_up()
    put_some(one, 1, first=2)
    one.run()
    before = one.shown()
    one.restore()
    (told,) = one.run()
    assert (told.micro_batch, told.batches_committed) == (2, 0)
    assert one.shown() == before
    put_some(one, 1, first=3)
    one.run()
    one.check(duckdb)


def test_case_13_an_older_numbered_checkpoint_is_refused(flow: MakeFlow) -> None:
    one = flow()
    put_some(one, 1)
    one.run()
    one.back_up()
    put_some(one, 3, first=1)
    one.run()
    before = one.shown()
    one.restore()
    with pytest.raises(Diverged, match="micro-batch 1 comes again with other rows") as refused:
        one.run()
    assert "Start with the newest one" in refused.value.hint
    assert one.shown() == before


def test_case_69_the_restored_backup_whose_next_micro_batch_has_other_rows_is_refused(flow: MakeFlow) -> None:
    """An offset of Spark's file source is a number in a log of its own: it may come to mean other files."""
    one = flow()
    put_some(one, 1)
    one.run()
    one.back_up()
    put_some(one, 1, first=1)
    one.run()
    before = one.shown()
    one.restore()
    put_some(one, 2, first=2)
    with pytest.raises(Diverged, match="micro-batch 1 comes again with other rows"):
        one.run(files=10)
    assert one.shown() == before


# -- a table that was put back, dropped or replaced -----------------------------------------------


@pytest.mark.parametrize("tag, stream", pairs({"main and tag": True, "main alone": False}, BOTH))
def test_case_14_a_table_that_was_put_back_behind_the_checkpoint_is_refused(
    flow: MakeFlow, stream: dict[str, Any], tag: bool
) -> None:
    one = flow(**stream)
    put_some(one, 3)
    one.run()
    upper = one.shown()[-2].upper
    one.roll_back(upper, tag=tag)
    put_some(one, 1, first=3)
    with pytest.raises(RolledBack) as refused:
        one.run()
    assert refused.value.hint
    assert one.shown()[-1].upper == upper


@pytest.mark.parametrize("stream", by_day("timed"))
def test_case_28_a_table_that_was_dropped_is_not_created_again(
    flow: MakeFlow, stream: dict[str, Any]
) -> None:
    one = flow(**stream)
    put_some(one, 2)
    one.run()
    one.drop()
    put_some(one, 1, first=2)
    with pytest.raises(TableMissing):
        one.run()
    with one.catalog() as catalog:
        assert not catalog.table_exists(("ns", one.table))


def test_case_28_a_table_that_was_dropped_before_its_first_commit_is_not_created_again(
    flow: MakeFlow,
) -> None:
    one = flow(time_column="lsn", frontier="maximum", frontier_delay=1000)
    put_some(one, 1)
    one.run()
    one.drop()
    put_some(one, 1, first=1)
    with pytest.raises(TableMissing):
        one.run()


@pytest.mark.parametrize("delay", [0, 1000], ids=["with rows", "before its first commit"])
def test_case_29_a_table_that_was_dropped_and_created_again_is_refused(flow: MakeFlow, delay: int) -> None:
    one = flow(time_column="lsn", frontier="maximum", frontier_delay=delay)
    put_some(one, 1)
    one.run()
    schema = one.load().schema()
    one.drop()
    with one.catalog() as catalog:
        catalog.create_table(("ns", one.table), schema)
    put_some(one, 1, first=1)
    with pytest.raises(TableReplaced):
        one.run()
    assert one.load().metadata.snapshots == []


# -- two queries on one sink ----------------------------------------------------------------------


def test_case_10_another_checkpoint_on_the_same_sink_is_refused_and_fences_nobody(flow: MakeFlow) -> None:
    one = flow()
    put_some(one, 1)
    one.run()
    other = replace(one, checkpoint="another")
    with pytest.raises(Diverged, match="another stream into the same table"):
        other.run()
    put_some(one, 1, first=1)
    one.run()
    assert one.generation() == 2


@pytest.mark.parametrize("stream", by_day("numbered"))
def test_case_10_of_two_drivers_the_older_one_is_fenced_and_changes_nothing(
    flow: MakeFlow, stream: dict[str, Any], duckdb: DuckReader
) -> None:
    """The second one takes the sink over while the first is between two micro-batches."""
    one = flow(**stream)
    put_some(one, 1)
    taken_over: list[str] = []

    def take_over() -> None:
        other = replace(one, checkpoint="another", sent=one.sent)
        other.run(replaces_checkpoint=one.query_id, micro_batches=1)
        taken_over.extend(str(shown.snapshot_id) for shown in other.shown())

    put_some(one, 1, first=1)
    with pytest.raises(Fenced):
        one.run(between={1: take_over})
    assert taken_over
    assert [str(shown.snapshot_id) for shown in one.shown()] == taken_over


def test_case_63_a_fenced_driver_that_shares_the_checkpoint_cannot_change_the_stash(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """The second driver takes over in the middle of a micro-batch of the first, and goes further than it."""
    one = flow(**MAXIMUM)
    put_some(one, 4)
    left: list[dict[str, str]] = []

    def take_over() -> None:
        second = one.by_hand()
        for number in (1, 2):
            second.micro_batch(number)
        left.append(one.stash_texts())

    with pytest.raises(Fenced):
        one.run(within={1: take_over})
    now = one.stash_texts()
    # What the first one wrote after it was fenced is there, and does not count.
    assert set(now) - set(left[0]) == {"0000000001-1-0.json"}
    assert left[0].items() <= now.items()
    third = one.by_hand()
    third.micro_batch(3)
    assert one.check(duckdb)[-1][1] == 13
    assert sorted({name.split("-")[1] for name in one.stash()}) == ["2", "3"]


def test_case_63_a_driver_that_was_fenced_before_it_commits_anything_stops_at_its_first_commit(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """Micro-batches that close nothing commit nothing: the older driver may take some before it finds out."""
    one = flow(**{**MAXIMUM, "frontier_delay": 12})
    put_some(one, 4)
    first, second = one.by_hand(), one.by_hand()
    first.micro_batch(0)
    first.micro_batch(1)
    second.micro_batch(1)
    first.micro_batch(2)
    with pytest.raises(Fenced):
        first.micro_batch(3)
    second.micro_batch(2)
    second.micro_batch(3)
    assert one.check(duckdb) == [(0, 3)]


# -- files and rows that wait ---------------------------------------------------------------------


def test_rows_wait_through_micro_batches_that_close_nothing(flow: MakeFlow, duckdb: DuckReader) -> None:
    """A segment of which a part was placed stays, and is not asked again for what it has given."""
    one = flow(**MAXIMUM)
    one.put(change(1, "a", 1), change(2, "b", 5), change(3, "c", 9))
    one.put(change(4, "d", 8))
    one.put()
    one.put(change(5, "e", 7), change(1, "f", 20))
    one.run()
    assert one.check(duckdb) == [(0, 7), (7, 18)]


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(True, id="stopped in between"),
        pytest.param(False, id="one run", marks=pytest.mark.nightly),
    ],
)
def test_case_3_files_of_an_open_batch_wait_and_are_committed_once(
    flow: MakeFlow, stop: bool, duckdb: DuckReader
) -> None:
    """Append with a commit interval: each micro-batch writes its rows at once, and a restart finds them."""
    one = flow(APPEND, **MAXIMUM, commit_interval=10)
    for number in range(6):
        put_some(one, 1, first=number)
        if stop:
            one.run()
    one.run()
    bounds = one.check(duckdb)
    assert [upper for _, upper in bounds] == [10, 20]
    written = sum(int(shown.summary["added-records"]) for shown in one.shown())
    assert written == 20


def test_files_that_wait_are_committed_also_where_the_interval_ends_after_several_stops(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    one = flow(APPEND, **MAXIMUM, commit_interval=100)
    for number in range(3):
        put_some(one, 1, first=number)
        one.run()
    assert one.shown() == []
    one.put(change(1, "x", 250))
    one.run()
    assert one.check(duckdb) == [(0, 200)]


def test_a_commit_interval_that_changes_while_files_wait_is_refused(flow: MakeFlow) -> None:
    one = flow(APPEND, **MAXIMUM, commit_interval=100)
    put_some(one, 1)
    one.run()
    put_some(one, 1, first=1)
    with pytest.raises(ConfigError, match="files wait for the end of batches of 100"):
        one.run(commit_interval=10)
    one.run()


def test_a_commit_interval_may_change_while_nothing_waits(flow: MakeFlow, duckdb: DuckReader) -> None:
    """Also to a shorter one: what was minted ahead under the longer one is forgotten."""
    one = flow(APPEND, MARKED, **MARKS, commit_interval=100)
    one.put(change(1, "a", 50), change(1, "b", 99), {"resolved": 200})
    one.run()
    one.put(change(1, "d", 205), change(1, "e", 230), change(1, "f", 900), {"resolved": 950})
    one.run(commit_interval=5)
    one.check(duckdb)
    one.put(change(1, "g", 960), {"resolved": 970})
    one.run(commit_interval=None)
    assert one.check(duckdb)[-1][1] == 970


@pytest.mark.skipif(not has_iceberg(), reason="somebody else alters with Iceberg's runtime")
def test_case_62_a_column_that_somebody_adds_while_files_with_a_new_column_wait_stops_the_sink(
    flow: MakeFlow, spark: Any
) -> None:
    """Files that wait have an id for the column which the table gave to another one meanwhile."""
    one = flow({**APPEND, "schema_evolution": True}, **MAXIMUM, commit_interval=100)
    put_some(one, 1)
    one.run()
    wider = SCHEMA.append(pa.field("extra", pa.string()))
    one.put({**change(1, "x", 60), "extra": "e"}, schema=wider)
    one.run(schema=wider)
    spark.sql(f"ALTER TABLE lake.ns.{one.table} ADD COLUMN theirs string")
    one.put({**change(1, "y", 300), "extra": "f"}, schema=wider)
    with pytest.raises(Diverged, match="the id of column extra belongs to theirs now") as refused:
        one.run(schema=wider)
    assert ".replaces_checkpoint" in refused.value.hint
    assert one.shown() == []


def test_rows_that_wait_get_the_columns_and_types_of_a_later_run(flow: MakeFlow, duckdb: DuckReader) -> None:
    """A restart brings a new column, a wider number, and later drops a column: rows of all three wait."""
    narrow = pa.schema(
        [("id", pa.int64()), ("v", pa.string()), ("n", pa.int32()), ("lsn", pa.int64()), ("_op", pa.string())]
    )
    wide = pa.schema([*narrow.set(2, pa.field("n", pa.int64())), pa.field("extra", pa.string())])
    slim = wide.remove(wide.get_field_index("v"))
    one = flow({**UPSERT, "schema_evolution": True}, wide, **{**MAXIMUM, "frontier_delay": 50})
    one.put({**change(1, "a", 1), "n": 1}, {**change(2, "b", 2), "n": 2}, schema=narrow)
    one.run(schema=narrow)
    one.put({**change(3, "c", 3), "n": 2**40, "extra": "e"}, schema=wide)
    one.run(schema=wide)
    one.put({**change(4, None, 4), "n": 5, "extra": "f"}, schema=slim)
    one.run(schema=slim)
    assert one.shown() == []
    one.put({**change(1, "z", 100), "n": 6, "extra": "g"}, schema=wide)
    one.run(schema=wide)
    assert one.check(duckdb) == [(0, 50)]


# -- a table that changes under a micro-batch -----------------------------------------------------


@pytest.mark.skipif(not has_iceberg(), reason="somebody else writes with Iceberg's runtime")
@pytest.mark.parametrize("stream", by_day("timed"))
def test_case_62_rows_that_somebody_inserts_into_the_empty_table_are_reached_by_deletes(
    flow: MakeFlow, spark: Any, duckdb: DuckReader, stream: dict[str, Any]
) -> None:
    """The first batch of an empty table has no deletes. Between its files and its commit the table gets rows:
    it is written again, and the row of its key is gone."""
    one = flow(**stream)
    one.put(change(1, "ours", 1), change(2, "ours", 2))

    def insert() -> None:
        spark.sql(f"INSERT INTO lake.ns.{one.table} VALUES (1, 'theirs', 0), (7, 'theirs', 0)")

    one.run(within={0: insert})
    rows = one.load().current_snapshot()
    assert rows is not None
    seen = duckdb.read(one.lake.at(one.table), rows.snapshot_id).to_pylist()
    # In time, the change at 2 waits.
    ours = [(1, "ours")] if stream else [(1, "ours"), (2, "ours")]
    assert sorted((row["id"], row["v"]) for row in seen) == [*ours, (7, "theirs")]
    assert len(one.stash()) == 2, "both attempts are kept beside the checkpoint until the next commit"


# -- rows that do not fit -------------------------------------------------------------------------


def quarantined(one: Flow) -> list[dict[str, Any]]:
    """The rows of the quarantine, read by PyIceberg."""
    rows = one.lake.load(f"{one.table}__quarantine").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["micro_batch"], row["row"]))


@pytest.mark.parametrize("stream", by_day("timed"))
def test_p8_the_quarantine_landed_and_the_target_did_not(
    flow: MakeFlow, stream: dict[str, Any], duckdb: DuckReader
) -> None:
    """Case 4: a crash between the two commits doubles nothing and loses nothing."""
    one = flow(**stream, on_bad_row="quarantine")
    bad = change(None, "no key", 3)
    one.put(change(1, "a", 1), bad, change(2, "b", 2))
    one.put(change(1, "c", 9), change(9, "bad op", 8, "x"))
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    assert len(quarantined(one)) == 1
    assert one.shown() == []
    one.run()
    kept = quarantined(one)
    assert [row["micro_batch"] for row in kept] == [0, 1]
    assert "the key is null" in kept[0]["reason"]
    assert "'x' is not an op" in kept[1]["reason"]
    one.check(duckdb, without=[bad, one.sent[1][1]])
    one.forget_commit(1)
    one.run()
    assert quarantined(one) == kept


def make(one: Flow, *, v_required: bool) -> None:
    """Somebody makes the table before the first run."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "v", StringType(), required=v_required),
        NestedField(3, "lsn", LongType(), required=False),
        identifier_field_ids=[1],
    )
    with one.catalog() as catalog:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        catalog.create_table((NAMESPACE, one.table), schema)


def alter(one: Flow, *, v_required: bool) -> None:
    """Somebody changes what fits."""
    with one.catalog() as catalog:
        table = catalog.load_table((NAMESPACE, one.table))
        with table.update_schema(allow_incompatible_changes=True) as changed:
            changed.update_column("v", required=v_required)


def disturb(one: Flow) -> None:
    """Somebody inserts a row: files that rely on an empty table are not committed any more."""
    with one.catalog() as catalog:
        table = catalog.load_table((NAMESPACE, one.table))
        row = {"id": 7, "v": "theirs", "lsn": 0}
        table.append(pa.Table.from_pylist([row], table.schema().as_arrow()))


def seen(one: Flow, duckdb: DuckReader) -> list[tuple[Any, ...]]:
    """The rows of the table, as it is now."""
    snapshot = one.load().current_snapshot()
    assert snapshot is not None
    rows = duckdb.read(one.lake.at(one.table), snapshot.snapshot_id).to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def kept_as_text(one: Flow) -> list[str]:
    """The rows of the quarantine, as a replay sees them: each once."""
    catalog = {"type": "sql", "uri": f"sqlite:///{one.lake.catalog_file}", "warehouse": one.lake.warehouse}
    waits = calve.list_quarantine(f"{one.lake.name}.{NAMESPACE}.{one.table}", catalog=catalog)
    assert len(waits) == len(quarantined(one))
    return sorted(str(entry.row["v"]) for entry in waits)


@pytest.mark.parametrize("crash, stream", pairs({"killed": True, "in one run": False}, BOTH))
def test_p8_a_row_that_fits_once_it_is_in_the_quarantine_stays_there(
    flow: MakeFlow, stream: dict[str, Any], crash: bool, duckdb: DuckReader
) -> None:
    """The quarantine landed, and what the target's files rely on broke: they are written again."""
    one = flow(**stream, on_bad_row="quarantine")
    make(one, v_required=True)
    one.put(change(1, "a", 1), change(2, None, 2), change(3, "c", 3))

    def mend() -> None:
        alter(one, v_required=False)
        disturb(one)

    if crash:
        with pytest.raises(Crash):
            one.run(crash_at="target: commit")
        mend()
    one.put(change(4, None, 9))
    told = one.run() if crash else one.run(within={0: mend})
    assert (told[0].rows_replayed, told[0].rows_quarantined) == (1, 0)
    assert kept_as_text(one) == ["None"]
    last = [] if stream else [(4, None)]  # in time, it waits
    assert seen(one, duckdb) == [(1, "a"), (3, "c"), *last, (7, "theirs")]


@pytest.mark.parametrize("stream", by_day("numbered"))
def test_p8_a_row_that_does_not_fit_any_more_once_the_quarantine_landed_goes_there_too(
    flow: MakeFlow, stream: dict[str, Any], duckdb: DuckReader
) -> None:
    """Killed at each commit of the second writing as well; then written a third time, on a table that takes
    the row again."""
    one = flow(**stream, on_bad_row="quarantine")
    make(one, v_required=False)
    one.put(change(1, "a", 1), change(2, None, 2), change(None, "no key", 2), change(3, "c", 3))
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    alter(one, v_required=True)
    disturb(one)
    with pytest.raises(Crash):
        one.run(crash_at="quarantine: commit")
    assert kept_as_text(one) == ["no key"]
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    assert kept_as_text(one) == ["None", "no key"]
    assert seen(one, duckdb) == [(7, "theirs")]
    one.forget_stash(0)
    alter(one, v_required=False)
    (told,) = one.run()
    assert (told.rows_replayed, told.rows_quarantined) == (2, 0)
    one.put(change(4, "d", 8), change(None, "no key either", 9), change(5, "e", 10))
    one.run()
    assert kept_as_text(one) == ["None", "no key", "no key either"]
    last = [(4, "d")] if stream else [(4, "d"), (5, "e")]
    assert seen(one, duckdb) == [(1, "a"), (3, "c"), *last, (7, "theirs")]


def test_p8_a_micro_batch_of_which_all_is_in_the_quarantine_is_still_told_to_the_table(
    flow: MakeFlow,
) -> None:
    """A replay waits until the stream is past a row: the table's frontier says so, also without a file."""
    one = flow(on_bad_row="quarantine")
    one.put(change(None, "no key", 1))
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    one.forget_stash(0)
    one.run()
    assert [shown.bounds for shown in one.shown()] == [(0, 1)]
    assert kept_as_text(one) == ["no key"]


def test_p8_rows_in_the_quarantine_stay_there_also_if_they_would_have_to_wait_now(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """A longer delay: rows of the micro-batch, and rows that waited before it, go back to the stash. What is
    in the quarantine does not."""
    one = flow(**{**MAXIMUM, "frontier_delay": 10}, on_bad_row="quarantine")
    make(one, v_required=True)
    one.put(change(1, "a", 1), change(2, None, 2))
    one.put(change(3, None, 50), change(4, "d", 51), change(5, "e", 100))
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    assert kept_as_text(one) == ["None", "None"]
    alter(one, v_required=False)
    disturb(one)
    one.run(frontier_delay=500)
    assert seen(one, duckdb) == [(7, "theirs")]
    one.put(change(6, "f", 1000))
    one.run()
    assert kept_as_text(one) == ["None", "None"]
    assert seen(one, duckdb) == [(1, "a"), (4, "d"), (5, "e"), (7, "theirs")]


@pytest.mark.parametrize("stream", by_day("numbered"))
def test_p8_a_run_without_a_quarantine_does_not_take_a_row_that_is_there(
    flow: MakeFlow, stream: dict[str, Any], duckdb: DuckReader
) -> None:
    """The row fits by now: written again without a look at the quarantine, it would be in both tables."""
    one = flow(**stream, on_bad_row="quarantine")
    make(one, v_required=True)
    bad = change(2, None, 2)
    one.put(change(1, "a", 1), bad, change(3, "c", 3))
    one.put(change(4, "d", 9))
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    alter(one, v_required=False)
    with pytest.raises(ConfigError, match="quarantine") as refused:
        one.run(on_bad_row="fail")
    assert "on_bad_row" in refused.value.hint
    assert one.shown() == []
    one.run()
    assert len(quarantined(one)) == 1
    one.check(duckdb, without=[bad])


def test_p8_rows_that_wait_for_the_quarantine_are_not_lost_when_the_next_run_has_none(flow: MakeFlow) -> None:
    one = flow(on_bad_row="quarantine")
    one.put(change(1, "a", 1), change(None, "no key", 3))
    with pytest.raises(Crash):
        one.run(crash_at="quarantine: commit")
    with pytest.raises(BadRow, match="the key is null"):
        one.run(on_bad_row="fail")
    assert one.shown() == []
    one.run()
    assert len(quarantined(one)) == 1


def test_case_12_a_quarantine_that_was_not_written_since_does_not_hold_a_new_checkpoint_back(
    flow: MakeFlow,
) -> None:
    """The quarantine knows the checkpoint of its last bad row; the target may know a newer one."""
    one = flow(**MAXIMUM, on_bad_row="quarantine")
    one.put(change(1, "a", 1), change(None, "no key", 3), change(2, "b", 9))
    one.run()
    lost = one.lose_checkpoint()
    one.put(change(3, "c", 20))
    one.run(replaces_checkpoint=lost)
    one.put(change(4, "d", 30))
    one.run()
    assert one.shown()[-1].upper == 28


@pytest.mark.parametrize(
    "files, then",
    [
        pytest.param(1, 10, id="in one"),
        pytest.param(3, 1, id="one by one", marks=pytest.mark.nightly),
    ],
)
def test_case_13_rows_that_the_quarantine_has_are_there_once_however_micro_batches_are_cut_anew(
    flow: MakeFlow, files: int, then: int, duckdb: DuckReader
) -> None:
    """P8: rows ahead of the table's frontier, without a time, and too late; once and twice. An equal row more
    than there were is new."""
    one = flow(**MAXIMUM, on_bad_row="quarantine")
    one.put(change(1, "a", 10))
    one.run()
    one.back_up()
    ahead, never, late = change(None, "ahead", 90), change(2, "never", None), change(2, "late", 3)
    one.put(change(2, "b", 12), ahead)
    one.put(change(3, "c", 14), never, late)
    one.put(change(4, "d", 16), never, change(5, "x", 40, "bogus"))
    one.run(files=files)
    kept = quarantined(one)
    assert len(kept) == 5
    one.restore()
    one.run(files=then, micro_batches=2)
    one.put(change(6, "e", 50), never, change(None, "more", 91))
    one.run(files=then)
    assert {row["id"] for row in kept} < {row["id"] for row in quarantined(one)}
    assert sorted(row["row"] for row in quarantined(one)) == sorted(
        [*(row["row"] for row in kept), *(json.dumps(row) for row in (never, change(None, "more", 91)))]
    )
    manifest = json.loads(max(one.stash_texts().items())[1])
    assert manifest["ahead"] == []
    bad = [row for row in (row for rows in one.sent for row in rows) if row["_op"] == "bogus"]
    one.check(duckdb, without=[ahead, never, late, *bad, one.sent[-1][2]])


def test_p8_an_append_that_is_planned_anew_has_its_bad_rows_once_and_new_ones_beside(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """Without a time and a key only the count tells, also where equal rows are in several tasks."""
    one = flow(APPEND, SCHEMA.remove(3), on_bad_row="quarantine")
    make(one, v_required=True)
    one.put({"id": 1, "v": "a", "lsn": 1})
    one.run()
    one.back_up()
    old, new, newer = ({"id": 2, "v": None, "lsn": 2} for _ in range(3))
    one.put(old)
    with pytest.raises(Crash):
        one.run(crash_at="target: commit")
    before = quarantined(one)
    one.restore()
    one.put(new, {"id": 3, "v": "c", "lsn": 3})
    one.put(newer)
    (told,) = one.run(files=10)
    assert (told.rows_replayed, told.rows_quarantined) == (1, 2)
    kept = quarantined(one)
    assert (len(before), len(kept)) == (1, 3)
    assert before[0] in kept
    assert seen(one, duckdb) == [(1, "a"), (3, "c")]


def test_p8_more_bad_rows_in_a_micro_batch_than_allowed_stop_the_query(flow: MakeFlow) -> None:
    """Over all tasks together."""
    one = flow(on_bad_row="quarantine", bad_rows_max=3, tasks=2)
    one.put(*(change(number, "a", number, "x") for number in range(4)))
    with pytest.raises(BadRow, match=r"more than 3 rows|4 rows do not fit"):
        one.run()
    assert one.shown() == []


def test_p8_rows_of_impossible_times_go_the_way_of_all_bad_rows(flow: MakeFlow, duckdb: DuckReader) -> None:
    one = flow(**MAXIMUM, on_bad_row="quarantine")
    bad = [change(1, "negative", -5), change(1, "none", None), change(None, "open", 10**9)]
    one.put(change(1, "a", 1), *bad, change(2, "b", 9))
    (told,) = one.run()
    assert told.rows_quarantined == 3
    assert sorted(row["reason"].split(":")[-1].strip() for row in quarantined(one)) == [
        "the key is null",
        "the time is negative",
        "the time is null",
    ]
    one.check(duckdb, without=bad)
