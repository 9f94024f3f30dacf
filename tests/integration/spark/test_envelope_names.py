"""Columns may have the names of what a message has: nobody else's table is named with our frames in mind."""

from __future__ import annotations

import json

import pytest

from calve.config.columns import SourceTable
from calve.envelope.known import envelope_of
from calve.model.columns import ERROR, OP, TIME

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
