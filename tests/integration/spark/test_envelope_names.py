"""Columns may have the names of what a message has: nobody else's table is named with our frames in mind."""

from __future__ import annotations

import json

import pytest

from calve.config.columns import SourceTable
from calve.envelope.known import envelope_of
from calve.model.columns import ERROR, OP, TIME
from calve.model.errors import SchemaMismatch

pytestmark = [pytest.mark.spark]

ROW = {
    "id": 1,
    "topic": "a",
    "partition": "b",
    "offset": 5,
    "key": "c",
    "value": "d",
    "m": "e",
    "error": "f",
    "updated": "g",
    "resolved": "h",
    "after": "i",
    "place": "j",
    "headers": "k",
    "file": "l",
    "line": "m",
}
TABLE = "id long primary key, " + ", ".join(
    f"{name} {'long' if name == 'offset' else 'string not null'}" for name in ROW if name != "id"
)
HLC = "1698775840453391000.0000000001"
MESSAGES = {
    "cockroachdb": {"after": ROW, "key": [1], "updated": HLC},
    "cockroachdb-enriched": {"after": ROW, "op": "u", "source": {"ts_hlc": HLC}, "key": {"id": 1}},
    "cockroachdb-bare": {**ROW, "__crdb__": {"updated": HLC, "key": [1]}},
    "materialize": {"mz_timestamp": 7, "mz_diff": 1, **ROW},
    "materialize-upsert": {"mz_timestamp": 7, "mz_state": "upsert", **ROW},
}


@pytest.mark.parametrize("name", MESSAGES)
def test_columns_may_have_the_names_of_what_a_message_has(spark, name):
    message = [("orders", "0", 3, None, json.dumps(MESSAGES[name]).encode())]
    raw = spark.createDataFrame(
        message, "topic string, partition string, offset long, key binary, value binary"
    )
    (found,) = envelope_of(name).decode(raw, SourceTable.of(TABLE)).collect()
    assert found[ERROR] is None
    assert {column: found[column] for column in ROW} == ROW
    assert found[OP] in ("upsert", 1)
    assert found[TIME] > 0


@pytest.mark.parametrize(
    "name, column",
    [
        ("cockroachdb-bare", "__crdb__"),
        ("cockroachdb-bare", "__CRDB__"),
        ("materialize", "mz_diff"),
        ("materialize", "mz_timestamp"),
        ("materialize-upsert", "mz_progressed"),
        ("materialize-upsert", "mz_state"),
    ],
)
def test_a_column_that_cannot_be_told_from_what_a_message_has_beside_it_is_refused(spark, name, column):
    table = SourceTable.of([("id", "long"), (column, "string"), ("n", "long not null")], key=["id"])
    raw = spark.createDataFrame([], "topic string, partition string, offset long, key binary, value binary")
    envelope = envelope_of(name)
    for act in (lambda: envelope.decode(raw, table), lambda: envelope.kernel("t", table, checks_names=True)):
        with pytest.raises(SchemaMismatch, match=f"a column is called '{column}'") as error:
            act()
        assert "Rename it at the source" in str(error.value)


def test_a_column_is_called_as_it_is_where_rows_are_objects_of_their_own(spark):
    row = {"id": 1, "__crdb__": "a", "mz_diff": "b"}
    table = SourceTable.of([("id", "long"), ("__crdb__", "string"), ("mz_diff", "string")], key=["id"])
    message = json.dumps({"after": row, "key": [1], "updated": HLC}).encode()
    raw = spark.createDataFrame(
        [("orders", "0", 3, None, message)],
        "topic string, partition string, offset long, key binary, value binary",
    )
    (found,) = envelope_of("cockroachdb").decode(raw, table).collect()
    assert {column: found[column] for column in row} == row
