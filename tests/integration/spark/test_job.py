"""Pipelines of SQL on Spark: what statements define becomes tables, snapshot by snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError

from calve.model.errors import BadKey, BadStatement, CalveError, ConfigError
from calve.runtime.previewed import Action
from calve.runtime.spark.job.preview import previews
from calve.runtime.spark.job.run import Watch, run
from tests.support.changefeed.feed import Changefeed
from tests.support.changefeed.history import History, Table
from tests.support.changefeed.lake import FilesFlow
from tests.support.lake import NAMESPACE
from tests.support.pipelines import Pipeline
from tests.support.readers import differences, read_snapshot, rows_of
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = pytest.mark.spark

ORDERS = Table("orders", (("id", "long"), ("status", "string"), ("total", "long")), ("id",))


@pytest.fixture
def pipeline(spark, lake, tmp_path: Path, table_name: str) -> Pipeline:
    for name in ("orders", "other"):
        (tmp_path / name).mkdir()
    return Pipeline(spark, lake, tmp_path, table_name)


def test_every_snapshot_of_a_view_of_a_changefeed_is_its_query_at_the_resolved_time(
    pipeline, lake, tmp_path, table_name, duckdb, spark
) -> None:
    """P1, through SQL, with a filter: rows leave the table when they fail it."""
    feed = Changefeed(History.of(11, ORDERS), seed=11, nodes=2)
    files = FilesFlow(spark, lake, tmp_path, feed, table_name)
    text = f"""
        CREATE SOURCE orders (id long, status string, total long)
            FROM COCKROACHDB CHANGEFEED (URL = '{(tmp_path / "bucket").as_uri()}', TOPIC = 'orders') KEY (id);
        CREATE VIEW low AS SELECT id AS order_id, total % 7 AS rest, status FROM orders WHERE total % 2 = 0;
        CREATE SINK low FROM low {pipeline.into(table_name)} PARTITION BY (bucket(4, order_id));"""
    files.put(feed.run(4, transactions=25))
    assert pipeline.run(text)["low"].snapshots > 1
    files.put(feed.run(4, transactions=25))
    pipeline.run(text)
    table = lake.load(table_name)
    like = pa.schema([("order_id", pa.int64()), ("rest", pa.int64()), ("status", pa.string())])
    seen = 0
    for snapshot in snapshots_of_main(table):
        frontier = int(summary_of(snapshot)["calve.frontier"])
        truth = [
            {"order_id": row["id"], "rest": _rest(int(str(row["total"]))), "status": row["status"]}
            for row in feed.state("orders", frontier - 1).values()
            if row["total"] is not None and int(str(row["total"])) % 2 == 0
        ]
        wanted = rows_of(pa.Table.from_pylist(truth, schema=like), like)
        shown = read_snapshot(duckdb, lake.at(table_name), snapshot.snapshot_id, like=like)
        assert shown == wanted, f"at {frontier}\n{differences(shown, wanted)}"
        seen += len(wanted)
    assert seen > 20


def _rest(total: int) -> int:
    """As Java has it: with the sign of what is divided."""
    return total % 7 if total >= 0 else -(-total % 7)


def test_rows_of_files_go_to_several_sinks_and_a_second_start_writes_nothing_again(
    pipeline, tmp_path, table_name, duckdb
) -> None:
    text = f"""
        CREATE SOURCE orders (id long, status string, at timestamptz) FROM FILES (PATH = 'orders') KEY (id);
        CREATE VIEW paid AS SELECT id, at FROM orders WHERE status = 'paid';
        CREATE SINK now FROM paid {pipeline.into(table_name + "_now")} WITH (SEQUENCE BY = 'at');
        CREATE SINK log FROM orders {pipeline.into(table_name + "_log")} MODE APPEND;
        CREATE SINK TABLE words FROM orders WITH (connector = 'iceberg', 'catalog.type' = 'sql',
            'catalog.uri' = 'sqlite:///{pipeline.lake.catalog_file}',
            'warehouse' = '{pipeline.lake.warehouse}', 'catalog.name' = '{pipeline.lake.name}',
            'namespace' = '{NAMESPACE}', 'table.name' = '{table_name}_words',
            'write.mode' = 'append', 'delivery.guarantee' = 'at-least-once');"""
    pipeline.write("orders", "1.json", {"id": 1, "status": "paid", "at": "2026-01-01T00:00:00Z"})
    ran = pipeline.run(text)
    assert [ran[name].rows for name in ("now", "log", "words")] == [1, 1, 1]
    pipeline.write("orders", "2.json", {"id": 1, "status": "sent", "at": "2026-01-02T00:00:00Z"})
    pipeline.run(text)
    assert all(one.snapshots == 0 for one in pipeline.run(text).values())
    assert pipeline.rows(duckdb, f"{table_name}_now") == []
    assert len(pipeline.rows(duckdb, f"{table_name}_log")) == 2
    assert len(pipeline.rows(duckdb, f"{table_name}_words")) == 2


def test_messages_in_files_are_read_by_their_envelope_and_every_topic_gets_its_table(
    pipeline, tmp_path, table_name, duckdb
) -> None:
    row = {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"}
    gone = {**row, "mz_timestamp": 12, "mz_diff": -1}
    stays = {**row, "id": 2}
    pipeline.write("sub", "1.json", row, stays, gone, {"mz_timestamp": 13, "mz_progressed": True})
    text = f"""
        CREATE SOURCE sub (id long, v string) FROM FILES (PATH = 'sub') KEY (id) ENVELOPE materialize;
        CREATE SINK a FROM sub {pipeline.into(table_name + "_{table}")};
        CREATE SINK b FROM sub {pipeline.into(table_name + "_log")} MODE APPEND;"""
    pipeline.run(text)
    assert pipeline.rows(duckdb, f"{table_name}_sub") == [(2, "a")]
    log = pipeline.rows(duckdb, f"{table_name}_log")
    assert sorted((time, diff) for *_, diff, time in log) == [(10, 1), (10, 1), (12, -1)]


def test_a_preview_tells_what_becomes_of_the_table_and_makes_nothing(pipeline, tmp_path, table_name) -> None:
    source = "CREATE SOURCE orders (id long, total int) FROM FILES (PATH = 'orders') KEY (id);"
    sink = f"CREATE SINK s FROM orders {pipeline.into(table_name)} PARTITION BY (bucket(4, id))"
    (before,) = previews(pipeline.job(f"{source}{sink}").prepare("s"))
    assert before.action is Action.CREATE
    assert [(one.name, one.type, one.required, one.key) for one in before.columns] == [
        ("id", "long", True, True),
        ("total", "int", False, False),
    ]
    assert before.partition == "bucket(4, id)"
    assert "inside the partition" in before.deletes
    assert before.resumes is None
    with pytest.raises(NoSuchTableError):
        pipeline.lake.load(table_name)

    pipeline.write("orders", "1.json", {"id": 1, "total": 1})
    pipeline.run(f"{source}{sink};")
    (same,) = previews(pipeline.job(f"{source}{sink}").prepare("s"))
    assert (same.action, same.resumes, same.generation) == (Action.NOTHING, 1, 1)

    wider = source.replace("total int", "total long, note string")
    (refused,) = previews(pipeline.job(f"{wider}{sink}").prepare("s"))
    assert refused.action is Action.REFUSE
    assert "schema" in refused.refused[0].reason
    (changed,) = previews(pipeline.job(f"{wider}{sink} WITH (SCHEMA EVOLUTION = true)").prepare("s"))
    assert changed.action is Action.CHANGE
    assert [(one.name, one.change) for one in changed.columns] == [
        ("id", ""),
        ("total", "was int"),
        ("note", "new"),
    ]

    (other,) = previews(pipeline.job(f"{source}{sink.replace('bucket(4, id)', 'id')}").prepare("s"))
    assert other.action is Action.REFUSE
    assert "partition: found bucket(4, id), wanted id" in other.refused[0].reason


def test_a_preview_says_what_the_times_are_before_the_first_of_them(pipeline, tmp_path, table_name) -> None:
    (seen,) = previews(
        pipeline.job(
            f"""CREATE SOURCE orders (id long, at timestamptz) FROM FILES (PATH = 'orders') KEY (id);
            CREATE SINK s FROM orders {pipeline.into(table_name)}
                WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum')"""
        ).prepare("s")
    )
    assert seen.source == "column at (timestamp)"  # what its progress will say


WRONG = {
    "CREATE VIEW v AS SELECT id FROM elsewhere": (BadStatement, "which is not defined before it"),
    "CREATE VIEW v AS SELECT a.id FROM orders a JOIN other b ON a.id = b.id": (
        BadStatement,
        "orders and other",
    ),
    "CREATE VIEW v AS SELECT status FROM orders": (BadKey, "does not show 'id' as it is"),
}


@pytest.mark.parametrize("view", WRONG)
def test_a_view_that_cannot_be_right_is_refused_before_anything_is_made(pipeline, table_name, view) -> None:
    kind, message = WRONG[view]
    text = f"""CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders') KEY (id);
        CREATE SOURCE other (id long) FROM FILES (PATH = 'other') KEY (id);
        {view}; CREATE SINK s FROM v {pipeline.into(table_name)}"""
    with pytest.raises(kind) as error:
        pipeline.job(text).prepare("s")
    assert message in error.value.message


def test_a_key_of_the_sink_that_is_not_the_sources_is_refused(pipeline, table_name) -> None:
    text = f"""CREATE SOURCE orders (id long, email string) FROM FILES (PATH = 'orders') KEY (id);
        CREATE VIEW v AS SELECT id, email FROM orders;
        CREATE SINK s FROM v {pipeline.into(table_name)} KEY (email)"""
    with pytest.raises(BadKey, match="its KEY is email, and that of its source id"):
        pipeline.job(text).prepare("s")


def test_a_folder_that_is_not_there_is_told(pipeline, table_name) -> None:
    text = f"""CREATE SOURCE s (id long) FROM FILES (PATH = 'nowhere');
        CREATE SINK s FROM s {pipeline.into(table_name)}"""
    with pytest.raises(ConfigError, match="there is no folder"):
        pipeline.job(text).prepare("s")


def test_a_line_that_is_no_row_stops_the_sink_and_the_others_stop_with_it(
    pipeline, tmp_path, table_name
) -> None:
    pipeline.write("good", "1.json", {"id": 1})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "1.json").write_text('{"id": "x"}\n')
    text = f"""CREATE SOURCE good (id long) FROM FILES (PATH = 'good');
        CREATE SOURCE bad (id long) FROM FILES (PATH = 'bad');
        CREATE SINK a FROM bad {pipeline.into(table_name + "_a")};
        CREATE SINK b FROM good {pipeline.into(table_name + "_b")};"""
    job = pipeline.job(text)
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        run([job.prepare("a"), job.prepare("b")], Watch())
    assert not [query for query in pipeline.spark.streams.active if query.name in ("a", "b")]


def test_a_run_ends_when_every_sink_is_where_it_should_be(pipeline, tmp_path, table_name) -> None:
    pipeline.write("orders", "1.json", {"id": 1})
    job = pipeline.job(
        f"""CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders');
        CREATE SINK s FROM orders {pipeline.into(table_name)} WITH (TRIGGER INTERVAL = '100ms')"""
    )
    watch = Watch(reached=lambda progress: (progress.frontier or 0) >= 1)
    (ran,) = run([job.prepare("s")], watch)
    assert ran.last is not None
    assert ran.last.frontier == 1


@pytest.mark.parametrize(
    "text, kind, message",
    [
        ("WITH (FRONTIER = 'soon')", ConfigError, "FRONTIER is 'soon'"),
        ("WITH (BAD ROWS MAX = 3)", ConfigError, "BAD ROWS MAX has no effect"),
        ("WITH (WRITE MODE = 'upset')", ConfigError, "cannot be 'upset'"),
        ("PARTITION BY (dya(id))", CalveError, "dya"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_the_name_of_its_sink(
    pipeline, table_name, text, kind, message
) -> None:
    job = pipeline.job(
        f"""CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders');
        CREATE SINK s FROM orders {pipeline.into(table_name)} {text}"""
    )
    with pytest.raises(kind) as error:
        job.prepare("s").tables()
    assert message in error.value.message
