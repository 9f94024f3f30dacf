"""Materialize's SUBSCRIBE as messages: what is decoded, and every snapshot at its time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import calve
from calve.config.columns import SourceTable
from calve.envelope.base import Sample
from calve.envelope.known import envelope_of
from calve.envelope.materialize import Kind, Materialize
from calve.model.columns import ERROR, MARK, OP, ORDER, PLACE, RAW, TIME
from calve.model.errors import SchemaMismatch
from tests.support.lake import NAMESPACE, Lake
from tests.support.truth import rows_of, snapshots_of_main, summary_of

pytestmark = [pytest.mark.spark]

ALL = SourceTable.of(
    "id long primary key, n decimal(10,2), b bytea, ts timestamp, tz timestamptz, u uuid, t time, d date, "
    "l int4 list, j jsonb, f double"
)
NOON = "1794832496789"


def messages(spark: Any, *values: Any) -> Any:
    texts = [one if isinstance(one, str | None) else json.dumps(one) for one in values]
    rows = [
        ("orders", "0", at, None, None if text is None else text.encode()) for at, text in enumerate(texts)
    ]
    return spark.createDataFrame(
        rows, "topic string, partition string, offset long, key binary, value binary"
    )


def decoded(spark: Any, kind: Kind, table: SourceTable, *values: Any) -> list[dict[str, Any]]:
    frame = Materialize(kind).decode(messages(spark, *values), table)
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_values_come_as_materialize_and_as_drivers_spell_them(spark):
    own = {
        "mz_timestamp": "7",
        "mz_progressed": False,
        "mz_diff": 1,
        "id": 1,
        "n": "1.50",
        "b": [104, 0, 255],
    }
    own |= {
        "ts": NOON,
        "tz": NOON,
        "u": str(UUID(int=7)),
        "t": "12:34:56.789",
        "l": [1, None],
        "j": {"a": [1]},
    }
    driver = {"mz_timestamp": 8, "mz_diff": "-3", "id": 2, "n": 2.25, "b": "\\x6869", "f": 1e300}
    driver |= {"ts": "2026-11-16 12:34:56.789", "tz": "2026-11-16 12:34:56.789+00", "d": "2026-11-16"}
    one, two = decoded(spark, Kind.DIFF, ALL, own, driver)
    instant = datetime(2026, 11, 16, 12, 34, 56, 789000, UTC).replace(tzinfo=None)
    assert (one[OP], one[TIME], one[ORDER], one[ERROR]) == (1, 7, 1, None)
    assert (one["n"], one["b"], one["ts"]) == (Decimal("1.50"), b"h\x00\xff", instant)
    assert (one["u"], one["t"], one["l"], one["j"]) == (
        UUID(int=7).bytes,
        45_296_789_000,
        [1, None],
        '{"a":[1]}',
    )
    assert (two[OP], two[TIME], two[ORDER], two[ERROR]) == (-3, 8, 0, None)
    assert (two["n"], two["b"], two["ts"], two["d"]) == (Decimal("2.25"), b"hi", instant, date(2026, 11, 16))
    assert one["tz"].astimezone(UTC) == two["tz"].astimezone(UTC) == instant.replace(tzinfo=UTC)


def test_progress_is_a_mark_and_what_says_nothing_is_none(spark):
    (mark,) = decoded(
        spark, Kind.DIFF, ALL, {"mz_timestamp": "9", "mz_progressed": True, "mz_diff": None}, None
    )
    assert (mark[MARK], mark[OP], mark[TIME], mark[ERROR]) == (9, None, None, None)


BAD: dict[Kind, list[tuple[Any, str]]] = {
    Kind.DIFF: [
        ("{x", "the message is no JSON object"),
        ({"mz_diff": 1, "id": 1}, "there is no mz_timestamp"),
        ({"mz_timestamp": "x", "mz_diff": 1}, "x is no mz_timestamp"),
        ({"mz_timestamp": -1, "mz_diff": 1}, "-1 is no mz_timestamp"),
        ({"mz_timestamp": 2**64, "mz_diff": 1}, "18446744073709551616 is no mz_timestamp"),
        ({"mz_timestamp": 1, "id": 1}, "there is no mz_diff"),
        ({"mz_timestamp": 1, "mz_diff": 0}, "0 is no mz_diff"),
        ({"mz_timestamp": 1, "mz_diff": 1, "id": "x"}, "a value does not fit its column"),
        ({"mz_timestamp": 1, "mz_diff": 1, "u": "x"}, "column 'u': x is no uuid"),
        ({"mz_timestamp": 1, "mz_diff": 1, "n": "1.555"}, "is no decimal(10,2)"),
        ({"mz_timestamp": 1, "mz_diff": 1, "ts": "noon"}, "column 'ts': noon is no timestamp"),
    ],
    Kind.UPSERT: [
        ({"mz_timestamp": 1, "id": 1}, "there is no mz_state"),
        ({"mz_timestamp": 1, "mz_state": "key_violation", "id": 1}, "several rows under this key"),
        ({"mz_timestamp": 1, "mz_state": "insert", "id": 1}, "insert is no mz_state"),
    ],
    Kind.DEBEZIUM: [
        ({"mz_timestamp": 1, "mz_state": "gone", "id": 1}, "gone is no mz_state"),
        (
            {"mz_timestamp": 1, "mz_state": "insert", "id": 1, "after_f": []},
            "a value does not fit its column",
        ),
    ],
}


@pytest.mark.parametrize("kind", BAD)
def test_a_message_that_nothing_can_be_made_of_is_a_row_with_its_error_and_place(spark, kind):
    rows = decoded(spark, kind, ALL, *(value for value, _ in BAD[kind]))
    for at, ((value, reason), row) in enumerate(zip(BAD[kind], rows, strict=True)):
        assert reason in row[ERROR]
        assert row[PLACE] == f"topic orders, partition 0, offset {at}"
        assert row[RAW] == (value if isinstance(value, str) else json.dumps(value))
        assert (row[OP], row[MARK]) == (None, None)


def test_states_are_ops_and_after_is_the_row(spark):
    table = SourceTable.of("id long primary key, v text")
    upserts = decoded(
        spark,
        Kind.UPSERT,
        table,
        {"mz_timestamp": 1, "mz_state": "upsert", "id": 1, "v": "a"},
        {"mz_timestamp": 2, "mz_state": "delete", "id": 1, "v": None},
    )
    assert [(row[OP], row["id"], row["v"]) for row in upserts] == [("upsert", 1, "a"), ("delete", 1, None)]
    assert ORDER not in upserts[0]
    changes = decoded(
        spark,
        Kind.DEBEZIUM,
        table,
        {"mz_timestamp": 1, "mz_state": "insert", "id": 1, "before_v": None, "after_v": "a"},
        {"mz_timestamp": 2, "mz_state": "upsert", "id": 1, "before_v": "a", "after_v": "b"},
        {"mz_timestamp": 3, "mz_state": "delete", "id": 1, "before_v": "b", "after_v": None},
    )
    assert [(row[OP], row["v"]) for row in changes] == [("insert", "a"), ("upsert", "b"), ("delete", None)]


def test_columns_are_learnt_from_messages_with_a_warning(caplog):
    def sample(**row: Any) -> Sample:
        return Sample(
            "orders", "0", 5, None, json.dumps({"mz_timestamp": 1, "mz_progressed": False, **row}).encode()
        )

    samples = [sample(mz_diff=1, id=1, v=None, f=1), sample(mz_diff=1, id=2, v=None, f=0.5)]
    table = envelope_of("materialize").learn(samples, None)
    assert (set(table.names), table.key) == ({"id", "v", "f"}, ())
    assert {"id long", "f double", "v string"} <= {f"{one.name} {one.type}" for one in table.columns}
    table = envelope_of("materialize-debezium").learn(
        [sample(mz_state="insert", id=1, before_v=None, after_v="a")], None
    )
    assert (table.names, table.key) == (("id", "v"), ("id",))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "id long, v string, f double; the key: none" in caplog.text
    progress = Sample("orders", "0", 6, None, b'{"mz_timestamp": 2, "mz_progressed": true, "id": null}')
    with pytest.raises(SchemaMismatch, match="topic orders: no message shows the columns"):
        envelope_of("materialize").learn([progress, Sample("orders", "0", 7, None, b"{x")], None)
    with pytest.raises(SchemaMismatch, match="ENVELOPE UPSERT has a key"):
        envelope_of("materialize-upsert").decode(None, SourceTable.of("id long"))


# ---------------------------------------------------------------- into tables

ROUNDS: list[list[dict[str, Any]]] = [
    [
        {"mz_timestamp": 10, "mz_progressed": True},
        {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"},
        {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 2, "v": "b"},
        {"mz_timestamp": 11, "mz_progressed": True},
        # An update: the +1 decides, in whichever order they come.
        {"mz_timestamp": 12, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "A"},
        {"mz_timestamp": 12, "mz_progressed": False, "mz_diff": -1, "id": 1, "v": "a"},
    ],
    [
        {"mz_timestamp": 12, "mz_progressed": False, "mz_diff": -1, "id": 2, "v": "b"},
        {"mz_timestamp": 13, "mz_progressed": True},
        {"mz_timestamp": 13, "mz_progressed": False, "mz_diff": 1, "id": 3, "v": "not closed yet"},
        # A subscription that was started again tells again.
        {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 2, "v": "b"},
    ],
]


@pytest.fixture
def subscribed(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Callable[..., Any]:
    """Messages into files, a round a micro-batch, and the table that they make."""

    def run(rounds: list[list[dict[str, Any]]], mode: str, **options: str) -> Any:
        folder = tmp_path / "messages"
        folder.mkdir(exist_ok=True)
        for number, found in enumerate(rounds):
            (folder / f"{number}.json").write_text("\n".join(map(json.dumps, found)))
            frame = spark.readStream.text(str(folder))
            feed = calve.read_stream(spark).messages(
                frame,
                envelope="materialize",
                topic="orders",
                tables="id long primary key, v text" if mode == "upsert" else "id long, v text",
            )
            writer = calve.write_stream(feed).option("checkpointLocation", str(tmp_path / "checkpoint"))
            url = f"iceberg:///{NAMESPACE}/{table_name[:50]}?mode={mode}&catalog.name={lake.name}"
            url += f"&catalog.uri=sqlite:///{lake.catalog_file}&warehouse={lake.warehouse}"
            url += "".join(f"&{name}={value}" for name, value in options.items())
            writer.trigger(availableNow=True).to_table(url).awaitTermination()
        return lake.load(table_name[:50])

    return run


def test_every_snapshot_is_the_relation_at_its_time(subscribed):
    table = subscribed(ROUNDS, "upsert")
    shown = {}
    for snapshot in snapshots_of_main(table):
        upper = int(summary_of(snapshot)["calve.frontier"])
        shown[upper] = sorted((row["id"], row["v"]) for row in rows_of(table, snapshot.snapshot_id))
    assert shown == {11: [(1, "a"), (2, "b")], 13: [(1, "A")]}


def test_a_changelog_keeps_diffs_and_times_under_materializes_names(subscribed):
    rounds = [
        [
            {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 3, "id": 1, "v": "a"},
            {"mz_timestamp": 11, "mz_progressed": False, "mz_diff": -2, "id": 1, "v": "a"},
            {"mz_timestamp": 12, "mz_progressed": True},
        ]
    ]
    names = {"changelog.op.column": "_mz_diff", "changelog.time.column": "_mz_timestamp"}
    table = subscribed(rounds, "changelog", **names)
    seen = [(row["_mz_timestamp"], row["_mz_diff"], row["id"], row["v"]) for row in rows_of(table)]
    assert sorted(seen) == [(10, 3, 1, "a"), (11, -2, 1, "a")]
    kinds = {field.name: str(field.field_type) for field in table.schema().fields}
    assert (kinds["_mz_diff"], kinds["_mz_timestamp"]) == ("int", "long")
