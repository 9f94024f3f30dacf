"""`calve-cockroachdb` on a real Spark: all rows once over restarts, marks in order, no secret anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calve.source.cockroachdb.datasource import FORMAT, register
from calve.source.cockroachdb.listing import Offset
from tests.support.changefeed.feed import Changefeed, Emission, Nemesis, Write
from tests.support.changefeed.history import History, Table, columns_json

pytestmark = pytest.mark.spark

ORDERS = Table(
    "my-orders", (("id", "long"), ("price", "decimal(10,2)"), ("uid", "uuid")), ("id",), ("price", "uid")
)
PEOPLE = Table("people", (("name", "string"), ("id", "long"), ("day", "date")), ("name", "id"), ("day",))
CANARY = "canary-of-changefeed-77"


@pytest.fixture(scope="module")
def source(spark):
    return register(spark, {"s3.secret-access-key": CANARY})


def put(folder: Path, write: Write) -> None:
    path = folder / write.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write.content)


class Run:
    """A stream over a folder, and what its micro-batches held."""

    def __init__(self, spark: Any, source: str, folder: Path, **options: Any) -> None:
        self.feed, self.checkpoint = folder / "feed", folder / "checkpoint"
        self.feed.mkdir(exist_ok=True)
        self.batches: dict[int, list[Any]] = {}
        self.frame = spark.readStream.format(source).options(url=self.feed.as_uri(), **options).load()

    def once(self, fail: bool = False) -> None:
        def take(frame: Any, number: int) -> None:
            self.batches[number] = frame.collect()
            if fail:
                raise RuntimeError("killed here")

        writer = self.frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        query.awaitTermination()

    @property
    def rows(self) -> list[Any]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def offset(self, number: int) -> Offset:
        text = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]
        return Offset.of_json(json.loads(text))


@pytest.mark.nightly  # by day its snapshots are compared, in test_changefeed_files.py
def test_every_row_comes_once_over_restarts_and_marks_in_order(spark, source, tmp_path):
    history = History.of(3, ORDERS, PEOPLE)
    history.run(10)
    feed = Changefeed(history, seed=3, layout="hourly", kind=".ndjson.gz", nemesis=Nemesis(30, 30, 0))
    run = Run(spark, source, tmp_path, tables=json.dumps(columns_json(history.tables)))
    written = []
    for round in range(3):
        for write in feed.run(3):
            put(run.feed, write)
            written.append(write.path)
        before = None
        if round == 1:
            with pytest.raises(Exception, match="killed here"):
                run.once(fail=True)
            before = run.batches[max(run.batches)]
        run.once()
        assert before in (None, run.batches[max(run.batches)])  # the same micro-batch, again
    late = feed.late_file()
    assert late is not None
    put(run.feed, late)
    written.append(late.path)
    run.once()
    assert run.offset(max(run.batches)).late == 1
    marks = [int(row.mark) for row in run.rows if row.mark is not None]
    assert marks == [time + 1 for time in feed.resolved]
    assert {(row.error, row.raw) for row in run.rows} == {(None, None)}
    data = {row.file for row in run.rows if row.topic is not None}
    assert data == {path for path in written if not path.endswith(".RESOLVED")}
    assert len({(row.file, row.line) for row in run.rows}) == len(run.rows)
    wanted = {
        (one.change.topic, one.updated, one.change.key, one.change.version.row is None)
        for one in feed.sent
        if isinstance(one, Emission) and one.updated <= feed.resolved[-1]
    }
    columns = {"my-orders": ("t0", ORDERS), "people": ("t1", PEOPLE)}
    seen = set()
    for row in run.rows:
        if row.topic is not None:
            column, table = columns[row.topic]
            key = tuple(row[column][name] for name in table.key)
            seen.add((row.topic, int(row.at), key, row.change == "delete"))
            others = [column for topic, (column, _) in columns.items() if topic != row.topic]
            assert [row[other] for other in others] == [None]
    assert wanted <= seen


def test_a_file_that_is_cut_off_stops_the_query_with_its_name(spark, source, tmp_path):
    feed = Changefeed(History.of(5, ORDERS), seed=5, kind=".ndjson.gz")
    run = Run(spark, source, tmp_path)
    writes = list(feed.run(1))
    for write in writes[:-1]:
        put(run.feed, Write(write.path, write.content[:-5]))
    put(run.feed, writes[-1])
    with pytest.raises(Exception, match="cannot be read to its end"):
        run.once()
    assert run.batches == {}
    for write in writes:
        put(run.feed, write)
    run.once()
    assert len(run.batches) == 1


def test_a_bounded_read_has_all_that_is_resolved(spark, source, tmp_path):
    feed = Changefeed(History.of(6, ORDERS), seed=6, layout="flat", kind=".parquet")
    for write in feed.run(3):
        put(tmp_path, write)
    tables = json.dumps(columns_json(feed.history.tables))
    rows = spark.read.format(source).option("tables", tables).load(tmp_path.as_uri()).collect()
    assert sorted(int(row.mark) - 1 for row in rows if row.mark is not None) == feed.resolved
    assert {row.t0.price for row in rows if row.topic is not None and row.change == "upsert"} >= {
        row["price"] for row in feed.state("my-orders", feed.resolved[-1]).values()
    }


def test_the_login_shows_in_no_plan_and_in_no_checkpoint(spark, source, tmp_path, capfd):
    run = Run(spark, source, tmp_path)
    for write in Changefeed(History.of(8, ORDERS), seed=8).run(1):
        put(run.feed, write)
    run.once()
    run.frame.explain(True)
    spark.read.format(source).load(run.feed.as_uri()).explain(True)
    assert CANARY not in capfd.readouterr().out
    kept = [path.read_text(errors="replace") for path in run.checkpoint.rglob("*") if path.is_file()]
    assert kept
    assert not any(CANARY in text for text in kept)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"fils_max": "3"}, "no option 'fils_max'"),
        ({"files_max": "many"}, "files_max is 'many'"),
        ({"tables": "[]"}, "tables is not as it should be"),
        ({"tables": '{"t": {"columns": [["id", "text"]]}}'}, "there is no such type"),
        ({"start_after": "2026-11-16/x"}, "is none"),
        ({"storage.adls.account-key": "k"}, "goes with the registration"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_that_cannot_be_followed_is_refused_when_it_is_loaded(spark, tmp_path, options, said):
    register(spark)
    with pytest.raises(Exception, match=said):
        spark.read.format(FORMAT).options(url=tmp_path.as_uri(), **options).load()


def test_a_feed_without_a_place_is_refused(spark):
    register(spark)
    with pytest.raises(Exception, match="has no url"):
        spark.read.format(FORMAT).load()
