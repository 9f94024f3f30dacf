"""Verify: a table that equals its source is told so, and every way in which it does not is found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.types import StructType

from calve.model.errors import ConfigError, SchemaMismatch
from calve.runtime.spark.verify.compare import compare
from calve.runtime.spark.verify.door import Verified, verify_live, verify_sink, verify_snapshots
from calve.runtime.spark.verify.postgres import live_table
from tests.support.changefeed.feed import Changefeed
from tests.support.changefeed.history import History, Table
from tests.support.changefeed.lake import FilesFlow
from tests.support.pipelines import Pipeline
from tests.support.postgres import postgres
from tests.support.spark import has_iceberg
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = pytest.mark.spark

ORDERS = Table("orders", (("id", "long"), ("status", "string"), ("total", "long")), ("id",))


class Compared(Pipeline):
    """A pipeline with one sink, `s`, whose table is compared."""

    def verify(self, text: str, at: str | None = None) -> Verified:
        (found,) = verify_sink(self.job(text).prepare("s"), at)
        return found

    def sql(self, statement: str) -> None:
        """What somebody else does to the table, with Iceberg's own runtime."""
        self.spark.sql(statement.replace("IT", self.qualified))

    def keys(self) -> set[int]:
        return {row[0] for row in self.spark.table(self.qualified).select("order_id").collect()}


@pytest.fixture
def pipeline(spark, lake, tmp_path: Path, table_name: str) -> Compared:
    return Compared(spark, lake, tmp_path, table_name[-60:].strip("_"))


@pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this release of Spark")
def test_a_changefeed_with_a_view_equals_its_source_at_every_frontier_and_damage_is_found(
    pipeline, lake, tmp_path, spark
) -> None:
    feed = Changefeed(History.of(5, ORDERS), seed=5, nodes=2)
    files = FilesFlow(spark, lake, tmp_path, feed, "unused")
    text = f"""
        CREATE SOURCE orders (id long, status string, total long)
            FROM COCKROACHDB CHANGEFEED (URL = '{(tmp_path / "bucket").as_uri()}', TOPIC = 'orders') KEY (id);
        CREATE VIEW even AS SELECT id AS order_id, status, total + 1 AS more FROM orders WHERE total % 2 = 0;
        CREATE SINK s FROM even INTO IT;"""
    files.put(feed.run(5, transactions=30))
    pipeline.run(text)
    files.put(feed.run(2, transactions=30))  # what has come since is not the table's yet
    now = pipeline.verify(text)
    assert now.equal
    assert now.compared.rows_left == now.compared.rows_right > 3
    first = snapshots_of_main(lake.load(pipeline.table))[0]
    resolved = summary_of(first)["crdb.resolved_hlc"]
    then = pipeline.verify(text, at=resolved)
    assert then.equal
    assert then.snapshot_id == first.snapshot_id

    key, another, *_, last = sorted(pipeline.keys())
    pipeline.sql(f"DELETE FROM IT WHERE order_id = {key}")
    pipeline.sql("INSERT INTO IT VALUES (-1, 'nobody', 0)")
    pipeline.sql(f"UPDATE IT SET more = more + 100 WHERE order_id = {another}")
    pipeline.sql(f"INSERT INTO IT SELECT * FROM IT WHERE order_id = {last}")
    damaged = pipeline.verify(text).compared
    assert (damaged.missing, damaged.extra, damaged.different, damaged.doubled) == (1, 1, 1, 1)
    by_key = {one.key["order_id"]: one for one in damaged.differences}
    assert by_key[key].right is None
    assert by_key[-1].left is None
    assert by_key[another].columns == ("more",)
    assert [by_key[one].times for one in (key, -1, another, last)] == [0, 1, 1, 2]


def test_rows_of_files_are_compared_with_all_that_is_there(pipeline, tmp_path) -> None:
    text = """CREATE SOURCE f (id long, v string, n long) FROM FILES (PATH = 'rows') KEY (id);
        CREATE SINK s FROM f INTO IT WITH (SEQUENCE BY = 'n');"""
    pipeline.write("rows", "1.json", {"id": 1, "v": "a", "n": 1}, {"id": 2, "v": "b", "n": 2})
    pipeline.run(text)
    pipeline.write("rows", "2.json", {"id": 1, "v": "c", "n": 3})
    behind = pipeline.verify(text)
    assert behind.compared.different == 1
    assert "micro-batches" in behind.note
    pipeline.run(text)
    assert pipeline.verify(text).equal
    with pytest.raises(ConfigError, match="Leave --at out"):
        pipeline.verify(text, at="1")


def test_a_view_that_names_the_time_otherwise_is_compared_as_of_the_frontier(pipeline, tmp_path) -> None:
    text = """CREATE SOURCE f (id long, v string, n long) FROM FILES (PATH = 'rows') KEY (id);
        CREATE VIEW some AS SELECT id AS key, n AS since FROM f WHERE v <> 'gone';
        CREATE SINK s FROM some INTO IT WITH (SEQUENCE BY = 'since', FRONTIER = 'maximum');"""
    first = [{"id": 1, "v": "a", "n": 1}, {"id": 2, "v": "b", "n": 2}, {"id": 1, "v": "gone", "n": 3}]
    pipeline.write("rows", "1.json", *first, {"id": 3, "v": "c", "n": 4})
    pipeline.run(text)
    pipeline.write("rows", "2.json", {"id": 2, "v": "gone", "n": 9})  # not the table's yet
    found = pipeline.verify(text)
    assert found.equal
    assert found.compared.rows_right == 1  # 2: 1 is gone, and the time of 3 is not over
    made = text.replace("n AS since", "n + 1 AS since").replace("WHERE v <> 'gone'", "")
    with pytest.raises(ConfigError, match="makes since of other columns"):
        pipeline.verify(made)


@pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this release of Spark")
def test_an_append_is_compared_as_a_bag_of_rows(pipeline, tmp_path) -> None:
    text = """CREATE SOURCE f (v string) FROM FILES (PATH = 'rows'); CREATE SINK s FROM f INTO IT;"""
    pipeline.write("rows", "1.json", {"v": "a"}, {"v": "a"}, {"v": None})
    pipeline.run(text)
    assert pipeline.verify(text).equal
    pipeline.sql("INSERT INTO IT VALUES ('a')")
    found = pipeline.verify(text).compared
    assert (found.missing, found.extra) == (0, 1)


def test_a_changelog_is_compared_by_the_rows_that_it_leads_to(pipeline, tmp_path) -> None:
    rows: list[dict[str, Any]] = [
        {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"},
        {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 2, "v": "b"},
        {"mz_timestamp": 12, "mz_progressed": False, "mz_diff": -1, "id": 1, "v": "a"},
        {"mz_timestamp": 13, "mz_progressed": True},
    ]
    pipeline.write("sub", "1.json", *rows)
    text = """CREATE SOURCE sub (id long, v string) FROM FILES (PATH = 'sub') KEY (id) ENVELOPE materialize;
        CREATE SINK s FROM sub INTO IT MODE CHANGELOG;"""
    pipeline.run(text)
    found = pipeline.verify(text)
    assert found.equal
    assert found.compared.rows_right == 1


def test_two_snapshots_are_compared_by_the_key_of_the_table(pipeline, tmp_path, spark) -> None:
    text = """CREATE SOURCE f (id long, v string) FROM FILES (PATH = 'rows') KEY (id);
        CREATE SINK s FROM f INTO IT;"""
    pipeline.write("rows", "1.json", {"id": 1, "v": "a"})
    pipeline.run(text)
    pipeline.write("rows", "2.json", {"id": 1, "v": "b"}, {"id": 2, "v": "c"})
    pipeline.run(text)
    first, last = snapshots_of_main(pipeline.lake.load(pipeline.table))
    address = pipeline.address
    found = verify_snapshots(spark, (address, first.snapshot_id), (address, last.snapshot_id), ())
    assert (found.compared.missing, found.compared.extra, found.compared.different) == (0, 1, 1)
    same = verify_snapshots(spark, (address, last.snapshot_id), (address, None), ())
    assert same.equal


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    with postgres() as uri, psycopg.connect(uri, autocommit=True) as connection:
        yield uri, connection


def test_a_table_is_compared_with_a_live_one_of_postgresql_at_its_lsn(pipeline, server) -> None:
    columns = (
        "id bigint primary key, name text, amount numeric(10,2), at timestamptz, day date, ok bool, "
        "raw bytea, tags text[], odd jsonb"
    )
    events = [
        {"before": None, "after": _row(1, 'a,\n"b"', "1.50"), "op": "c", "source": _at(1)},
        {"before": None, "after": _row(2, None, None), "op": "c", "source": _at(2)},
        {"before": None, "after": _row(1, "", "2.50"), "op": "u", "source": _at(3)},
    ]
    pipeline.write("events", "1.json", *events)
    text = """CREATE SOURCE people (id long, name string, amount decimal(10,2), at timestamptz, day date,
            ok boolean, raw binary, tags list<string>, odd map<string, string>)
            FROM DEBEZIUM (PATH = 'events', DECIMALS = 'string') KEY (id);
        CREATE VIEW shown AS SELECT id, name, amount, at, day, ok, raw, tags FROM people;
        CREATE SINK s FROM shown INTO IT;"""
    pipeline.run(text)
    prepared = pipeline.job(text).prepare("s")
    uri, connection = server
    connection.execute(f"CREATE TABLE people ({columns})")
    connection.execute(
        "INSERT INTO people SELECT id, name, amount, '2026-01-01T01:00+01', '2026-01-02', true, '\\x0102', "
        "'{a,NULL}' FROM (VALUES (1, '', 2.50), (2, NULL, NULL)) v (id, name, amount)"
    )
    found = verify_live(prepared, uri, "public.people")
    assert found.equal, found.compared.differences
    assert found.compared.rows_left == 2
    assert "PostgreSQL at " in found.source
    connection.execute("UPDATE people SET tags = '{a,b}' WHERE id = 2; INSERT INTO people (id) VALUES (3)")
    changed = verify_live(prepared, uri, "people").compared
    assert (changed.missing, changed.different) == (1, 1)
    assert changed.differences[0].columns == ("tags",)
    with pytest.raises(ConfigError, match="the table nowhere cannot be read"):
        verify_live(prepared, uri, "nowhere")
    asks = text.replace("raw, tags FROM", "raw, tags, odd['a'] AS a FROM")
    with pytest.raises(SchemaMismatch, match="'odd' is map<string,string> in the table and jsonb"):
        verify_live(pipeline.job(asks).prepare("s"), uri, "people")


BIG = Decimal("12345678901234567890.000000000000000001")
WORDS = ["a,b", None, '"x"\\', None, "NULL", ""]
MOMENT = datetime.fromisoformat("2026-01-01T00:00:00.5")
UUID = "0b0e7a5c-0000-4000-8000-00000000000f"
KINDS: tuple[tuple[str, str, str, Any], ...] = (
    # in PostgreSQL, as it is told there; in a table, as it is read there
    ("numeric(12,3)", "1234.5", "decimal(12,3)", Decimal("1234.500")),
    ("numeric", "12345678901234567890.000000000000000001", "decimal(38,18)", BIG),
    ("jsonb", '{"a":[1,"x"]}', "string", '{"a": [1, "x"]}'),
    ("uuid", UUID.upper(), "string", UUID),
    ("bytea", r"\x0001ff", "binary", b"\x00\x01\xff"),
    ("timestamptz", "2026-01-01 01:00:00.5+01", "timestamp", MOMENT),
    ("timestamp", "2026-01-01 01:00:00.5", "timestamp_ntz", MOMENT + timedelta(hours=1)),
    ("time", "12:00:00.000001", "long", 43_200_000_001),
    ("date", "2026-01-02", "date", date(2026, 1, 2)),
    ("char(3)", "a", "string", "a  "),
    ("mood", "so so", "string", "so so"),
    ("positive", "7", "int", 7),
    ("text[]", r"""{"a,b",NULL,"\"x\"\\",NULL,"NULL",""}""", "array<string>", WORDS),
    ("text[]", "{}", "array<string>", []),
    ("int[]", "[0:2]={1,NULL,-3}", "array<int>", [1, None, -3]),
    ("int[][]", "{{1,2},{3,NULL}}", "array<array<int>>", [[1, 2], [3, None]]),
    ("numeric[]", "{12345678901234567890.000000000000000001,0}", "array<decimal(38,18)>", [BIG, Decimal(0)]),
    ("float8[]", "{0.1,1e300,-Infinity}", "array<double>", [0.1, 1e300, -inf]),
    ("boolean[]", "{t,f}", "array<boolean>", [True, False]),
    ("jsonb[]", r"""{"{\"a\":1}"}""", "array<string>", ['{"a": 1}']),
    ("uuid[]", f"{{{UUID}}}", "array<string>", [UUID]),
    ("bytea[]", r"""{"\\x0001ff"}""", "array<binary>", [b"\x00\x01\xff"]),
    ("timestamptz[]", "{2026-01-01 01:00:00.5+01}", "array<timestamp>", [MOMENT]),
    ("time[]", "{12:00:00.000001}", "array<long>", [43_200_000_001]),
    ("date[]", "{2026-01-02,NULL}", "array<date>", [date(2026, 1, 2), None]),
    ("char(3)[]", "{a}", "array<string>", ["a  "]),
    ("mood[]", '{"so so"}', "array<string>", ["so so"]),
    ("positive[]", "{7}", "array<int>", [7]),
    ("words", "{x}", "array<string>", ["x"]),
)


def test_every_kind_of_value_of_postgresql_is_what_a_table_has(server, spark) -> None:
    """Also where the role is set to other forms: what is printed for people is not compared."""
    uri, connection = server
    for setting in ("DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "bytea_output = 'escape'"):
        connection.execute(f"ALTER ROLE postgres SET {setting}")
    connection.execute("CREATE TYPE mood AS ENUM ('so so', 'fine')")
    connection.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    connection.execute("CREATE DOMAIN words AS text[]")
    columns = ", ".join(f'"of.{place}" {kind}' for place, (kind, *_) in enumerate(KINDS))
    connection.execute(f"CREATE TABLE kinds ({columns})")
    values = ", ".join(["%s"] * len(KINDS))
    connection.execute(f"INSERT INTO kinds VALUES ({values})", [told for _, told, *_ in KINDS])
    connection.execute("INSERT INTO kinds DEFAULT VALUES")
    like = StructType().fromDDL(", ".join(f"`of.{place}` {one[2]}" for place, one in enumerate(KINDS)))
    with live_table(uri, "kinds") as live:
        told, nothing = live.rows(spark, like).collect()
    assert list(told) == [wanted for *_, wanted in KINDS]
    assert set(nothing) == {None}


def test_what_postgresql_has_no_list_of_is_refused_by_its_column(server, spark) -> None:
    uri, connection = server
    connection.execute("CREATE TABLE others (id int, doc jsonb, tags text[])")
    with live_table(uri, "others") as live:
        for like, said in (
            ("doc map<string, string>", r"'doc' is map<string,string> in the table and jsonb in PostgreSQL"),
            ("doc array<string>", r"'doc' is array<string> in the table and jsonb"),
            ("tags array<struct<a: int>>", r"'tags' is array<struct<a:int>> in the table and text\[\]"),
            ("gone int", "no column 'gone'"),
        ):
            with pytest.raises(SchemaMismatch, match=said):
                live.rows(spark, StructType().fromDDL(like))


def _row(id: int, name: str | None, amount: str | None) -> dict[str, Any]:
    return {
        "id": id, "name": name, "amount": amount, "at": "2026-01-01T00:00:00Z", "day": 20455, "ok": True,
        "raw": "AQI=", "tags": ["a", None], "odd": {"a": "b"},
    }  # fmt: skip


def _at(number: int) -> dict[str, Any]:
    return {
        "connector": "postgresql", "name": "s", "db": "d", "schema": "public", "table": "people",
        "snapshot": "false", "ts_ms": number, "txId": number, "lsn": number * 8,
        "sequence": f'["{number * 8}","{number * 8}"]',
    }  # fmt: skip


# ---------------------------------------------------------------- two frames


def frame(spark: Any, rows: list[tuple[Any, ...]], columns: str) -> Any:
    return spark.createDataFrame(rows, columns)


def test_nulls_nans_and_maps_are_equal_where_they_mean_the_same(spark) -> None:
    columns = "id int, f double, m map<string, array<int>>, s struct<a: map<int, int>>"
    rows = [(1, nan, {"a": [1], "b": None}, ({1: 2, 3: 4},)), (2, None, None, None), (3, -0.0, {}, (None,))]
    other = [(3, 0.0, {}, (None,)), (2, None, None, None), (1, nan, {"b": None, "a": [1]}, ({3: 4, 1: 2},))]
    assert compare(frame(spark, rows, columns), frame(spark, other, columns), ("id",)).equal
    changed = [*other[:2], (1, nan, {"b": None, "a": [2]}, ({3: 4, 1: 2},))]
    found = compare(frame(spark, rows, columns), frame(spark, changed, columns), ("id",))
    assert found.different == 1
    assert found.differences[0].columns == ("m",)


def test_a_null_in_a_key_is_a_key(spark) -> None:
    left, right = (
        frame(spark, [(None, "a")], "id int, v string"),
        frame(spark, [(None, "b")], "id int, v string"),
    )
    found = compare(left, right, ("id",))
    assert (found.missing, found.extra, found.different) == (0, 0, 1)


def test_the_first_differences_are_shown_and_all_are_counted(spark) -> None:
    left = spark.range(0, 1000).selectExpr("id", "id AS v")
    right = spark.range(0, 1000).selectExpr("id", "IF(id % 2 = 0, id, -id) AS v")
    found = compare(left, right, ("id",), limit=3)
    assert found.different == 500
    assert [one.key["id"] for one in found.differences] == [1, 3, 5]
    assert found.differences[0].left == {"id": 1, "v": 1}
    assert found.differences[0].right == {"id": 1, "v": -1}


def test_a_column_that_the_source_lacks_is_refused(spark) -> None:
    with pytest.raises(SchemaMismatch, match="no column 'v'"):
        compare(spark.range(1), spark.range(1).selectExpr("id", "id AS v"), ("id",))
