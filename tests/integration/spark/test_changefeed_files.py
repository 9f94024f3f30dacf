"""A changefeed's files into tables: one snapshot a resolved time, equal to the source then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyspark.errors import StreamingQueryException

import calve
from calve.model.errors import Diverged, SchemaMismatch
from tests.support.changefeed.feed import QUIET, Changefeed, Nemesis
from tests.support.changefeed.history import History, Table
from tests.support.changefeed.lake import FilesFlow
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = pytest.mark.spark

ORDERS = Table(
    "my-orders",
    (("id", "long"), ("price", "decimal(10,2)"), ("uid", "uuid"), ("at", "timestamptz"), ("n", "double")),
    ("id",),
    ("price", "uid", "at", "n"),
)
PEOPLE = Table("people", (("name", "string"), ("id", "long"), ("day", "date")), ("name", "id"), ("day",))
CLOCKS = Table("clocks", (("at", "timestamp"), ("n", "long")), ("at",), ("n",))
TURNED_UP = Nemesis(restarts=30, small_files=50, late_files=40)


@pytest.fixture
def flow(spark, lake, tmp_path: Path, table_name: str) -> Callable[..., FilesFlow]:
    def make(seed: int = 7, before: int = 20, **settings: Any) -> FilesFlow:
        own = {name: settings.pop(name) for name in ("write", "read", "declare") if name in settings}
        history = History.of(seed, *settings.pop("tables", (ORDERS, PEOPLE)))
        history.run(before)
        feed = Changefeed(history, seed=seed, **settings)
        return FilesFlow(spark, lake, tmp_path, feed, table_name[-40:].strip("_"), **own)

    return make


@pytest.mark.parametrize(
    "kind, seed, rounds",
    [
        # A restart, three files that appear late, four resolved times.
        pytest.param(".ndjson.gz", 31, (2, 3), id=".ndjson.gz"),
        pytest.param(".ndjson.gz", 7, (4, 6), id="many restarts", marks=pytest.mark.nightly),
        pytest.param(".parquet", 7, (4, 6), id=".parquet", marks=pytest.mark.nightly),
    ],
)
def test_every_snapshot_is_the_source_at_its_resolved_time(
    kind: str, seed: int, rounds: tuple[int, int], flow, duckdb
) -> None:
    it = flow(seed=seed, kind=kind, layout="hourly", nemesis=TURNED_UP)
    it.put(it.changefeed.run(rounds=rounds[0]))
    it.run()
    first = it.check(duckdb)
    assert any(first.values())
    it.put(it.changefeed.run(rounds=rounds[1]))
    it.run()
    frontiers = it.check(duckdb)
    resolved = {time + 1 for time in it.changefeed.resolved}
    for found in frontiers.values():
        assert set(found) <= resolved, "a snapshot ends at a resolved time, and nowhere else"
        assert found == sorted(set(found))
    assert max(map(max, frontiers.values())) == it.changefeed.resolved[-1] + 1


def test_a_stream_makes_a_snapshot_of_each_resolved_time_and_names_the_job(flow, duckdb) -> None:
    it = flow(nemesis=QUIET, read={"job_id": "1017"})
    it.put(it.changefeed.run(rounds=3))
    it.run()
    frontiers = it.check(duckdb)
    assert len({*frontiers["my-orders"], *frontiers["people"]}) == len(it.changefeed.resolved)
    table = it.lake.load(it.name("my-orders"))
    for snapshot in snapshots_of_main(table):
        summary = summary_of(snapshot)
        assert summary["crdb.job_id"] == "1017"
        assert summary["crdb.resolved_hlc"].replace(".", "") == str(int(summary["calve.frontier"]) - 1)
        files = int(summary.get("added-data-files", 0))
        assert int(summary["crdb.data_file_count"]) == files
        assert int(summary["crdb.delete_file_count"]) == int(summary.get("added-delete-files", 0))
        assert len(summary["crdb.batch_id"]) == 36


def test_what_has_no_zone_is_the_same_in_every_zone(spark, flow, duckdb) -> None:
    """A key, so that deletes find their rows."""
    it = flow(tables=(CLOCKS,))
    it.put(it.changefeed.run(rounds=2))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        it.run()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert any(it.check(duckdb).values())


@pytest.mark.nightly  # test_feed.py shows it of messages by day
def test_columns_that_the_source_gets_come_with_the_rows_that_have_them(flow, duckdb) -> None:
    it = flow(tables=(PEOPLE,), write=lambda writer: writer.schema_evolution())
    it.put(it.changefeed.run(rounds=2))
    it.run()
    it.changefeed.history.add_column("people", "age", "long", 30)
    it.put(it.changefeed.run(rounds=2))
    it.run()
    it.check(duckdb)
    assert it.lake.load(it.name("people")).schema().column_names == ["name", "id", "day", "age"]


@pytest.mark.nightly
def test_a_run_after_a_failed_one_does_what_failed_and_the_next_one_the_rest(flow, duckdb) -> None:
    """As docs/feeds.md says it: where Spark does more, that is to be said."""
    it = flow(nemesis=QUIET)
    it.put(it.changefeed.run(rounds=2))
    it.run()
    it.put(it.changefeed.run(rounds=2))
    bad = max(it.bucket.rglob("*.ndjson"))
    whole = bad.read_bytes()
    bad.write_bytes(b"half a line\n" + whole)
    with pytest.raises(StreamingQueryException):
        it.run()
    bad.write_bytes(whole)
    failed = it.changefeed.resolved[-1] + 1
    it.put(it.changefeed.run(rounds=2))
    it.run()
    assert max(map(max, it.check(duckdb).values())) <= failed
    it.run()
    assert max(map(max, it.check(duckdb).values())) == it.changefeed.resolved[-1] + 1


def test_a_file_that_appears_late_is_read_and_counted(flow, duckdb) -> None:
    it = flow(tables=(PEOPLE,), nemesis=QUIET)
    it.put(it.changefeed.run(rounds=3))
    resolved = sorted(it.bucket.rglob("*.RESOLVED"))
    (late,) = [path for path in it.bucket.rglob("*.ndjson") if resolved[-2] < path < resolved[-1]][:1]
    whole, copy = late.read_bytes(), late.with_name(late.name.replace("-00000", "-0000f"))
    it.run()
    assert [progress.files_late for progress in it.log.seen][-1] == 0
    copy.write_bytes(whole)  # the same rows once more, under a name that sorts before the last RESOLVED file
    it.put(it.changefeed.run(rounds=1))
    it.run()
    it.check(duckdb)
    assert it.log.seen[-1].files_late == 1


def test_a_file_that_is_cut_stops_the_feed_with_its_name_and_nothing_of_it_is_committed(flow, duckdb) -> None:
    it = flow(tables=(PEOPLE,), kind=".ndjson.gz")
    it.put(it.changefeed.run(rounds=1))
    cut = max(it.bucket.rglob("*.ndjson.gz"), key=lambda path: path.stat().st_size)
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) - 12])
    with pytest.raises(StreamingQueryException, match=cut.name):
        it.run()
    for topic in it.changefeed.history.tables:
        with pytest.raises(NoSuchTableError):
            it.lake.load(it.name(topic))
    cut.write_bytes(whole)
    it.run()
    assert any(it.check(duckdb).values())


@pytest.mark.nightly  # kafka/test_changefeed.py shows it of topics by day
def test_a_topic_that_is_left_out_keeps_its_table_as_it_is(flow, duckdb) -> None:
    """Its files are passed over from then on: a later frontier would claim what was not read."""
    it = flow(nemesis=QUIET)
    it.put(it.changefeed.run(rounds=2))
    it.run()
    before = it.check(duckdb)
    it.put(it.changefeed.run(rounds=2))
    it.read = {"topics": ["my-orders"]}
    it.run()
    after = it.check(duckdb)
    assert after["people"] == before["people"]
    assert after["my-orders"][-1] == it.changefeed.resolved[-1] + 1
    it.put(it.changefeed.run(rounds=1))
    it.read = {"topics": "my-orders, people"}
    with pytest.raises(StreamingQueryException, match="people was passed over"):
        it.run()


@pytest.mark.nightly  # unit/runtime/spark/test_topics.py has the check itself
def test_a_checkpoint_is_of_its_folder(flow, duckdb) -> None:
    """Offsets are names of files: those of another folder would be taken up in the middle."""
    it = flow(tables=(PEOPLE,), nemesis=QUIET)
    it.put(it.changefeed.run(rounds=1))
    it.run()
    before = it.check(duckdb)
    it.put(it.changefeed.run(rounds=1))
    there = it.bucket.rename(it.folder / "moved")
    (it.folder / "bucket").symlink_to(there)
    it.place = there
    with pytest.raises(Diverged, match=r"so far this checkpoint was of .*/bucket, and now it is .*/moved"):
        it.run()
    it.place = None
    it.run()
    after = it.check(duckdb)
    assert max(map(max, after.values())) > max(map(max, before.values()))


def test_the_key_of_a_guessed_table_is_what_the_user_says(spark, tmp_path: Path) -> None:
    """Where two columns have the values of the key, files do not tell which of them it is."""
    name = "202611160000000000000000000000000-b6199abe6ff49566-1-1-00000000-pairs-1.ndjson"
    rows = [{"after": {"id": n, "other": n}, "key": [n], "updated": f"{n}.0000000000"} for n in (1, 2)]
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    reader = calve.read_stream(spark)
    feed = reader.cockroachdb(tmp_path.as_uri())
    assert feed.tables["pairs"].key == ()
    with pytest.raises(SchemaMismatch, match="the table of topic 'pairs' has no key"):
        feed.envelope("pairs").decode(feed.frame, feed.tables["pairs"])
    assert reader.cockroachdb(tmp_path.as_uri(), key={"pairs": "id"}).tables["pairs"].key == ("id",)
    assert reader.cockroachdb(tmp_path.as_uri(), "pairs", key="other").tables["pairs"].key == ("other",)
