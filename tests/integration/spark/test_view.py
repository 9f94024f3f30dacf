"""Views over changes: what a query shows of the source at a time is what the table holds at that time."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from calve.model.columns import OP, TIME
from calve.model.errors import BadKey, BadStatement
from calve.runtime.spark.query import relations_of
from calve.runtime.spark.view import View

pytestmark = pytest.mark.spark

COLUMNS = f"id long, status string, total long, {OP} string, {TIME} long"
QUERIES = [
    "SELECT id, status FROM orders WHERE status = 'paid'",
    "SELECT id AS order_id, 100 / total AS share, total FROM orders WHERE total <> 0",
    "SELECT * FROM orders WHERE total > 2 OR status IS NULL",
    "WITH big AS (SELECT *, total * 2 AS twice FROM orders WHERE total > 1)"
    " SELECT id, twice, upper(status) AS status FROM big b WHERE b.twice < 8",
    "SELECT id, CASE WHEN total > 2 THEN status END AS status FROM (SELECT * FROM orders) o",
    "SELECT id, total FROM orders WHERE NOT (status = 'paid' AND total > 1)",  # null for some
]


def changes(seed: int, count: int = 120) -> list[tuple[Any, ...]]:
    random = Random(f"view {seed}")
    rows: list[tuple[Any, ...]] = []
    for time in range(count):
        key = random.randrange(12)
        if random.random() < 0.2:
            rows.append((key, None, None, "delete", time))
        else:
            status = random.choice(["new", "paid", None])
            op = random.choice(["insert", "upsert"])
            rows.append((key, status, random.choice([None, 0, 1, 2, 3, 5]), op, time))
    return rows


def state(rows: list[Any], key: str, time: int) -> list[dict[str, Any]]:
    """What is there at a time: the last change of each key."""
    last: dict[Any, dict[str, Any]] = {}
    for row in sorted((row.asDict() for row in rows), key=lambda one: one[TIME]):
        if row[TIME] <= time:
            last[row[key]] = row
    kept = (row for row in last.values() if row[OP] != "delete")
    return [{name: one for name, one in row.items() if name not in (OP, TIME)} for row in kept]


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_of_changes_holds_at_any_time_what_its_query_shows_of_the_source_then(spark, query) -> None:
    """P1 with a view: an order that stops being paid leaves a table of paid orders."""
    rows = changes(len(query))
    frame = spark.createDataFrame(rows, COLUMNS)
    seen = View("orders", (("v", query),)).over_changes(frame, OP)
    collected = seen.frame.collect()
    key = next(name for name, origin in seen.origins.items() if origin == "id")
    source = frame.collect()
    for time in (10, 37, 80, len(rows)):
        there = state(source, "id", time)
        spark.createDataFrame(there, "id long, status string, total long").createOrReplaceTempView("orders")
        wanted = [row.asDict() for row in spark.sql(query).collect()]
        assert ordered(state(collected, key, time)) == ordered(wanted), f"at {time}"
    spark.catalog.dropTempView("orders")


def test_marks_and_messages_that_cannot_be_read_go_through_as_they_are(spark) -> None:
    frame = spark.createDataFrame([(None, None, None, None, 7)], COLUMNS)
    seen = View("orders", (("v", QUERIES[0]),)).over_changes(frame, OP)
    assert [row[OP] for row in seen.frame.collect()] == [None]


def test_ops_that_are_numbers_stay_numbers(spark) -> None:
    frame = spark.createDataFrame(
        [(1, "paid", 1), (2, "new", 1), (3, "paid", -1)], "id long, s string, n int"
    )
    seen = View("orders", (("v", "SELECT id FROM orders WHERE s = 'paid'"),)).over_changes(frame, "n")
    assert sorted(tuple(row) for row in seen.frame.select("id", "n").collect()) == [(1, 1), (2, -1), (3, -1)]


def test_views_stand_on_views_and_a_uuid_is_text(spark) -> None:
    frame = spark.createDataFrame(
        [(bytes(range(16)), "a", "upsert"), (bytes(16), "b", "upsert")], f"u binary, s string, {OP} string"
    )
    view = View(
        "t", (("one", "SELECT u AS v, s FROM t"), ("two", "SELECT v FROM one WHERE v LIKE '00010203-%'"))
    )
    seen = view.over_changes(frame, OP, (("u", "uuid"),))
    assert seen.carried == (("v", "uuid"),)
    assert seen.key(("u",), "two") == ("v",)
    assert [(bytes(row.v), row[OP]) for row in seen.frame.orderBy("v").collect()] == [
        (bytes(16), "delete"),
        (bytes(range(16)), "upsert"),
    ]


def test_a_uuid_that_is_null_is_null_to_a_query_and_in_its_table(spark) -> None:
    columns = f"id long, u binary, {OP} string"
    frame = spark.createDataFrame([(1, bytes(16), "upsert"), (2, None, "upsert")], columns)
    nulls = View("t", (("one", "SELECT id FROM t WHERE u IS NULL"),))
    seen = nulls.over_changes(frame, OP, (("u", "uuid"),)).frame
    assert [(row.id, row[OP]) for row in seen.orderBy("id").collect()] == [(1, "delete"), (2, "upsert")]
    every = View("t", (("one", "SELECT id, u FROM t"),))
    seen = every.over_changes(frame, OP, (("u", "uuid"),)).frame
    assert [row.u and bytes(row.u) for row in seen.orderBy("id").collect()] == [bytes(16), None]


REFUSED = {
    "SELECT id, count(*) FROM orders GROUP BY id": "groups rows",
    "SELECT DISTINCT id FROM orders": "DISTINCT",
    "SELECT id FROM orders LIMIT 3": "LIMIT",
    "SELECT id FROM orders ORDER BY id": "ORDER BY",
    "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id": "joins",
    "SELECT id, row_number() OVER (ORDER BY id) FROM orders": "OVER",
    "SELECT explode(array(id, id)) AS id FROM orders": "explode",
    "SELECT id FROM orders UNION ALL SELECT id FROM orders": "UNION",
    "SELECT id FROM orders WHERE id IN (SELECT id FROM orders)": "a subquery",
    "SELECT id, rand() FROM orders": "rand()",
    "SELECT id FROM orders WHERE id > unix_timestamp()": "at another time",
    "SELECT id, current_date() AS today FROM orders": "at another time",
    "SELECT idd FROM orders": "Did you mean one of the following? [`id`",
    "SELEC id FROM orders": "cannot be read",
    "SELECT 1 AS id": "OneRowRelation",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_cannot_be_right_over_changes_is_refused_with_the_reason(spark, query) -> None:
    frame = spark.createDataFrame([], COLUMNS)
    with pytest.raises(BadStatement) as error:
        View("orders", (("v", query),)).over_changes(frame, OP)
    assert REFUSED[query] in error.value.message
    assert "'v'" in error.value.message
    assert not [one for one in spark.catalog.listTables() if one.name in ("orders", "v")]


def test_a_view_that_does_not_show_the_key_is_refused(spark) -> None:
    frame = spark.createDataFrame([], COLUMNS)
    seen = View("orders", (("v", "SELECT id + 1 AS id, status FROM orders"),)).over_changes(frame, OP)
    with pytest.raises(BadKey, match="does not show 'id' as it is"):
        seen.key(("id",), "v")


def test_spark_says_which_relations_a_query_reads(spark) -> None:
    query = "WITH x AS (SELECT * FROM orders) SELECT * FROM x CROSS JOIN `o;1`"
    read = relations_of(spark, "v", query, ["orders", "o;1", "x"])
    assert (read.known, read.unknown) == (["orders", "o;1"], None)
    elsewhere = relations_of(spark, "v", "SELECT * FROM nowhere", ["orders"])
    assert (elsewhere.known, elsewhere.unknown) == ([], "nowhere")
