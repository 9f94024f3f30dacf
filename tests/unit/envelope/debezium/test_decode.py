"""Messages of a real connector as changes, on Spark."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as F

from calve.config.columns import SourceColumn, SourceTable
from calve.envelope.debezium import Debezium, Declared
from calve.envelope.debezium.observe import Observer, json_ends, json_events
from calve.envelope.debezium.transactions import Arrived, Ended, State, advance
from calve.model.columns import ERROR, OP, ORDER, PLACE, POSITION, RAW, TIME
from tests.support.kernels import alone, check_among
from tests.unit.envelope.debezium.messages import Message, frame, messages

pytestmark = pytest.mark.spark

ACCT = messages("messages.jsonl", "schoff.s.acct")
TYPES = messages("types.jsonl", "off.public.w")
SMALL = SourceTable((SourceColumn("id", "long"), SourceColumn("t", "string")), ("id",))


def _decoded(
    spark: Any, envelope: Debezium, some: list[Message], table: SourceTable, **more: int
) -> list[dict]:
    rows = envelope.decode(frame(spark, some), table, **more).collect()
    read = [
        alone(envelope, table, None, one.value.encode(), one.offset, one.topic)
        for one in some
        if one.value is not None
    ]
    check_among(read, rows)
    return [row.asDict(recursive=True) for row in rows]


def _event(offset: int, op: str, row: dict | None, *, old: dict | None = None, **more: Any) -> Message:
    """An event of PostgreSQL in a table of an id and a text."""
    source = {"connector": "postgresql", "snapshot": "false", "schema": "s", "table": "t", "lsn": offset}
    source["sequence"] = f'["{more.pop("commit", 100)}","{more.pop("lsn", offset)}"]'
    about = {"id": f"7:{offset}", "total_order": more.pop("number", offset), "data_collection_order": 1}
    template = Message("t", offset, None, "{}")
    body = {"before": old, "after": row, "source": source, "transaction": about, "op": op, **more}
    return template.like(offset, **body)


def test_every_type_with_and_without_a_schema_in_every_mode(spark) -> None:
    expected = {
        "id": 1,
        "b": True,
        "i2": -1,
        "i8": 9007199254740993,
        "f4": 1.5,
        "n": "12345678901234567890.123456789",
        "n102": Decimal("-12.34"),
        "n38": Decimal("1234567890123456789012345678.0123456789"),
        "t": "hé",
        "by": b"\x00\xff",
        "u": uuid.UUID("7b1f1f6e-0000-4000-8000-000000000001").bytes,
        "jb": '{"a": 1}',
        "d": date(2026, 1, 2),
        "tm": ((12 * 60 + 34) * 60 + 56) * 1_000_000 + 789_012,
        "tmtz": "10:34:56Z",
        "ts": datetime(2026, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001
        "ts3": datetime(2026, 1, 2, 3, 4, 5, 678000),  # noqa: DTZ001
        "en": "ok",
        "bi8": b"\x81",
        "ia": [1, None, 3],
        "ta": ["a", None, "b c"],
        "na": [Decimal("1.50"), None],
        "ua": ["7b1f1f6e-0000-4000-8000-000000000001"],
        "da": [date(2026, 1, 2)],
        "tsa": [datetime(2026, 1, 2, 3, 4, 5)],  # noqa: DTZ001
        "bya": [b"\x00\xff"],
    }
    with_schemas = Debezium(schemas=True)
    shown = {mode: messages("types.jsonl", f"{mode}.public.w")[0] for mode in ("on", "nano", "iso")}
    table = with_schemas.learn([shown["on"].sample], None)
    for mode, message in shown.items():
        assert with_schemas.learn([message.sample], None) == table, mode
        (row,) = _decoded(spark, with_schemas, [message], table)
        assert {name: row[name] for name in expected} == expected, mode
        assert math.isnan(row["f8"])
        assert row["tstz"].astimezone(UTC) == datetime(2026, 1, 2, 1, 4, 5, 678901, UTC)
        assert (row[OP], row[ERROR], row[RAW]) == ("upsert", None, None)

    milliseconds = {"tm3": "io.debezium.time.Time", "ts3": "io.debezium.time.Timestamp"}
    (row,) = _decoded(spark, Debezium(declared=Declared(meanings=milliseconds)), TYPES[:1], table)
    variable = '{"scale":9,"value":"J+QbMka+ybFuOYEV"}'
    assert {name: row[name] for name in expected} == {**expected, "n": variable}


def test_messages_with_blanks_between_their_tokens_are_the_same_messages(spark) -> None:
    envelope = Debezium(schemas=True)
    some = [one for one in messages("messages.jsonl", "schon.s.acct") if one.value is not None]
    spaced = [replace(one, value=json.dumps(json.loads(str(one.value)), indent=1)) for one in some]
    table = envelope.learn([one.sample for one in some], None)
    assert envelope.learn([one.sample for one in spaced], None) == table
    keys = frame(spark, spaced).select(envelope.version(F.col("value"))).distinct()
    assert keys.count() == frame(spark, some).select(envelope.version(F.col("value"))).distinct().count()
    shown = [{**row, RAW: None} for row in _decoded(spark, envelope, spaced, table)]
    plain = [{**row, RAW: None} for row in _decoded(spark, envelope, some, table)]
    assert repr(shown) == repr(plain)  # a NaN is no other's equal
    assert json_events(frame(spark, spaced)).collect() == json_events(frame(spark, some)).collect()


def test_a_number_that_no_float_holds_is_an_error_and_never_infinite(spark) -> None:
    columns = {"id": "long", "t": "double", "f": "float", "l": "double[]"}
    table = SourceTable.of(columns, key=["id"])
    values = [
        ('"Infinity"', "1.5", "null"),
        ("1.5", '"-Infinity"', '[1.5, "Infinity", null]'),
        ("1e400", "1", "[]"),
        ("1", "1e39", "[]"),
        ("1", "1", "[1, -1e999]"),
    ]
    some = []
    for at, texts in enumerate(values):
        one = _event(at, "c", {"id": at, "t": "%s", "f": "%s", "l": "%s"})
        some.append(replace(one, value=str(one.value).replace('"%s"', "%s") % texts))
    rows = _decoded(spark, Debezium(), some, table)
    assert [(row["t"], row["f"], row["l"], row[ERROR]) for row in rows[:2]] == [
        (math.inf, 1.5, None, None),
        (1.5, -math.inf, [1.5, math.inf, None], None),
    ]
    assert [row[ERROR] for row in rows[2:]] == [
        "column 't': its value is no double",
        "column 'f': its value is no float",
        "column 'l': its value is no list<double>",
    ]


def test_decimals_and_times_as_other_modes_send_them(spark) -> None:
    kinds = {"n": "decimal(38,9)", "n102": "decimal(10,2)", "n38": "decimal(38,10)", "m": "decimal(19,2)"}
    declared = SourceTable(tuple(SourceColumn(name, kind) for name, kind in kinds.items()))
    text = messages("types.jsonl", "str.public.w")[0]
    envelope = Debezium(schemas=True)
    table = envelope.learn([text.sample], declared)
    (row,) = _decoded(spark, envelope, [text], replace(table, key=("id",)))
    assert [row[name] for name in kinds] == [
        Decimal("12345678901234567890.123456789"),
        Decimal("-12.34"),
        Decimal("1234567890123456789012345678.0123456789"),
        Decimal("12.34"),
    ]
    assert row["tm"] == 45_296_789_000
    number = messages("types.jsonl", "dbl.public.w")[0]
    (row,) = _decoded(spark, envelope, [number], envelope.learn([number.sample], None))
    assert (row["n102"], row["by"], row["iv"]) == (-12.34, "00ff", 2_813_400_000_000)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_clock_without_a_zone_does_not_depend_on_that_of_the_session(spark, zone: str) -> None:
    autumn = datetime(2026, 10, 25, 0, 30)  # noqa: DTZ001
    micros = int((autumn - datetime(1970, 1, 1)).total_seconds()) * 1_000_000  # noqa: DTZ001
    table = SourceTable((SourceColumn("id", "long"), SourceColumn("t", "timestamp")), ("id",))
    some = [_event(1, "c", {"id": 1, "t": micros}), _event(2, "c", {"id": 2, "t": micros + 3_600_000_000})]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        shown = Debezium().decode(frame(spark, some), table).selectExpr("cast(t as string) as t").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [row["t"] for row in shown] == ["2026-10-25 00:30:00", "2026-10-25 01:30:00"]


def test_ops_tombstones_and_key_changes_of_a_real_table(spark) -> None:
    envelope = Debezium()
    table = SourceTable(
        (
            SourceColumn("tenant", "int"),
            SourceColumn("id", "long"),
            SourceColumn("bal", "decimal(18,4)"),
            SourceColumn("anynum", "decimal(38,28)"),
            SourceColumn("f", "double"),
        ),
        ("tenant", "id"),
    )
    rows = _decoded(spark, envelope, ACCT, table)
    rows.sort(key=lambda row: row[POSITION])
    found = [(row[OP], row["tenant"], row["id"], row["bal"], row[ERROR]) for row in rows]
    assert found == [
        ("upsert", 1, 1, Decimal("10.5000"), None),
        ("insert", 1, 2, Decimal("-0.0001"), None),
        ("insert", 2, 1, Decimal("12345678901234.5678"), None),
        ("upsert", 1, 2, Decimal("0.9999"), None),
        ("upsert", 1, 2, Decimal("0.9999"), None),
        ("delete", 2, 1, None, None),
        ("insert", 9, 1, Decimal("12345678901234.5678"), None),
        ("delete", 9, 1, None, None),
        ("upsert", 5, 1, Decimal("2.0000"), None),
        ("upsert", 1, 1, Decimal("10.5000"), None),
    ]
    assert rows[0]["anynum"] == Decimal("1.2345678901234567890123456789")


@pytest.mark.parametrize("toast", ["refuse", "keep"])
def test_columns_may_be_called_as_those_of_messages(spark, toast: str) -> None:
    names = ("value", "topic", "partition", "offset", "file", "key", "op", "after", "source", "a.b")
    table = SourceTable(
        (SourceColumn("id", "long"), *(SourceColumn(name, "string") for name in names)), ("id",)
    )
    row = {"id": 1, **{name: name.upper() for name in names}}
    some = [_event(1, "c", row), _event(2, "u", row), _event(3, "d", None, old=row)]
    first, _, last = _decoded(spark, Debezium(toast=toast), some, table)
    assert {name: first[name] for name in row} == row
    assert (last["id"], last[OP], last[ERROR]) == (1, "delete", None)


def test_case_68_positions_follow_commits_and_not_lsns(spark) -> None:
    """Case 68: the second transaction began first; a COPY has one LSN; a snapshot shares it with an event."""
    some = [
        _event(0, "r", {"id": 1}, lsn=50, transaction=None).like(
            0, source={"snapshot": "last", "sequence": '[null,"50"]'}
        ),
        _event(1, "c", {"id": 2}, number=1).like(1, source={"sequence": '[null,"50"]'}),
        _event(2, "c", {"id": 3}, commit=100, lsn=80, number=1),
        _event(3, "c", {"id": 4}, commit=100, lsn=90, number=2),
        _event(4, "c", {"id": 5}, commit=100, lsn=90, number=3),
        _event(5, "r", {"id": 6}, commit=200, lsn=70, transaction=None).like(
            5, source={"snapshot": "incremental"}
        ),
        _event(6, "d", None, old={"id": 7}, commit=300, lsn=250, number=1),
        _event(7, "c", {"id": 8}, commit=300, lsn=250, number=2),
    ]
    rows = _decoded(spark, Debezium(), some, SMALL)
    positions = [row[POSITION] for row in sorted(rows, key=lambda row: row["id"])]
    assert positions == sorted(set(positions))
    assert {len(position) for position in positions} == {49}


def test_mysql_has_positions_in_its_binlog(spark) -> None:
    def at(offset: int, op: str, file: str, pos: int, row: int, snapshot: str = "false") -> Message:
        source = {"connector": "mysql", "file": file, "pos": pos, "row": row, "snapshot": snapshot}
        return _event(offset, op, {"id": offset}, old={"id": offset}, source=source, transaction=None)

    some = [
        at(0, "r", "binlog.000009", 157, 0, "first"),
        at(1, "r", "binlog.000009", 157, 0, "last"),
        at(2, "c", "binlog.000009", 157, 0),
        at(3, "c", "binlog.000009", 157, 1),
        at(4, "d", "binlog.000010", 4, 0),
        at(5, "c", "binlog.000010", 4, 0),
        at(6, "u", "binlog.1000000", 4, 0),
    ]
    rows = _decoded(spark, Debezium(), some, SMALL)
    positions = [row[POSITION] for row in sorted(rows, key=lambda row: row["id"])]
    assert positions == sorted(set(positions))


def test_what_cannot_be_read_is_an_error_with_its_place_and_not_a_row_less(spark) -> None:
    table = SourceTable(
        (
            *SMALL.columns,
            SourceColumn("n", "decimal(4,2)"),
            SourceColumn("d", "date"),
            SourceColumn("z", "timestamptz"),
            SourceColumn("u", "uuid"),
            SourceColumn("c", "time"),
            SourceColumn("l", "list<decimal(4,2)>"),
        ),
        ("id",),
    )
    wrong: dict[int, tuple[dict, str]] = {
        1: ({"n": "AYag"}, "column 'n': its value is no decimal(4,2)"),
        2: ({"n": "!"}, "column 'n': its value is no decimal(4,2)"),
        3: ({"d": -2147472692}, "column 'd': its value is no date"),
        4: ({"z": "infinity"}, "column 'z': its value is no timestamptz"),
        22: ({"z": "12:34"}, "column 'z': its value is no timestamptz"),
        5: ({"u": "7b1f"}, "column 'u': its value is no uuid"),
        6: ({"c": 86_400_000_000}, "column 'c': its value is no time"),
        7: ({"l": ["AJY=", "AYag"]}, "column 'l'"),
        8: ({"t": "__debezium_unavailable_value"}, "column 't': the source did not send its value"),
        9: ({"id": "seven"}, "does not fit"),
        10: ({"id": None}, "column 'id' is null, and is part of the key"),
    }
    some = [_event(offset, "c", {"id": offset, **row}) for offset, (row, _) in wrong.items()]
    more = {
        11: (_event(11, "t", None), "truncated"),
        12: (_event(12, "x", {"id": 12}), "the op x is not known"),
        13: (_event(13, "u", None), "no `after`"),
        14: (_event(14, "d", None), "a delete without `before`"),
        15: (_event(15, "c", {"id": 15}, source={"connector": "mongodb"}), "connector mongodb"),
        16: (Message("t", 16, None, "{"), "no JSON object"),
        17: (Message("t", 17, None, "[1]"), "no JSON object"),
        18: (_event(18, "c", {"id": 18}).like(18, source={"sequence": None, "lsn": None}), "no position"),
    }
    some += [message for message, _ in more.values()]
    some += [Message("t", 19, None, None), _event(20, "m", None), _event(21, "c", {"id": 21})]
    rows = _decoded(spark, Debezium(), some, table)
    assert len(rows) == 20
    found = {int(row[PLACE].rsplit(" ", 1)[1]): row for row in rows if row[ERROR] is not None}
    about = {offset: words for offset, (_, words) in {**wrong, **more}.items()}
    for offset, words in about.items():
        assert words in found[offset][ERROR], offset
        assert found[offset][OP] is None
        assert found[offset][PLACE] == f"topic t, partition t/0, offset {offset}"
        assert found[offset][RAW] == next(one.value for one in some if one.offset == offset)
    assert found.keys() == about.keys()


def test_infinite_times_are_null_and_truncates_are_skipped_where_that_is_said(spark) -> None:
    table = SourceTable(
        (*SMALL.columns, SourceColumn("d", "date"), SourceColumn("z", "timestamptz")), ("id",)
    )
    some = [
        _event(1, "c", {"id": 1, "d": -2147472692, "z": "-infinity"}),
        _event(2, "c", {"id": 2, "z": "never"}),
        _event(3, "t", None),
    ]
    rows = _decoded(spark, Debezium(infinity="null", truncates="skip"), some, table)
    rows.sort(key=lambda row: row["id"])
    assert [(row["id"], row["d"], row["z"], row[ERROR]) for row in rows] == [
        (1, None, None, None),
        (2, None, None, "column 'z': its value is no timestamptz"),
    ]


def test_case_50_placeholders_in_all_their_forms_are_never_written(spark) -> None:
    update = next(one for one in TYPES if one.value and '"op":"u"' in one.value)
    schema = messages("types.jsonl", "on.public.w")[0]
    table = Debezium(schemas=True).learn([schema.sample], None)
    for name in ("t", "by", "jb", "ia", "ba", "ta", "ua", "da", "bya", "js2", "hs"):
        one = SourceTable((table.column("id"), table.column(name)), ("id",))
        (row,) = _decoded(spark, Debezium(), [update], one)
        assert row[ERROR].startswith(f"column {name!r}: the source did not send"), name


def test_a_value_that_was_not_sent_is_kept_where_the_stream_has_it(spark) -> None:
    absent = "__debezium_unavailable_value"
    some = [
        _event(1, "c", {"id": 1, "t": "a"}, number=1),
        _event(2, "u", {"id": 1, "t": absent}, number=2),
        _event(3, "u", {"id": 1, "t": absent}, number=3),
        _event(4, "u", {"id": 2, "t": absent}, number=4),
        _event(5, "u", {"id": 3, "t": absent}, old={"id": 3, "t": "full"}, number=5),
        _event(6, "u", {"id": 3, "t": absent}, number=6),
        _event(7, "c", {"id": 4, "t": "old"}, number=7),
        _event(8, "d", None, old={"id": 4}, number=8),
        _event(9, "c", {"id": 4, "t": absent}, number=9),
        _event(10, "u", {"id": 4, "t": absent}, number=10),
        _event(11, "u", {"id": 5, "t": None}, number=11),
        _event(12, "u", {"id": 5, "t": absent}, number=12),
    ]
    rows = _decoded(spark, Debezium(toast="keep"), some, SMALL)
    found = {
        int(row[POSITION][-16:], 16): row["t"] if row[ERROR] is None else row[ERROR][:10] for row in rows
    }
    refused = "column 't'"
    assert [found[number] for number in sorted(found)] == [
        *("a", "a", "a"),
        refused,
        *("full", "full"),
        *("old", None, refused, refused),
        *(None, None),
    ]


def test_two_schemas_in_one_micro_batch_are_both_read(spark) -> None:
    on = messages("messages.jsonl", "schon.s.acct")[0]
    assert on.value is not None
    rescaled = on.value.replace('"scale":"4"', '"scale":"2"').replace(
        '"connect.decimal.precision":"18"', '"connect.decimal.precision":"16"'
    )
    other = replace(on, offset=1, value=rescaled)
    envelope = Debezium(schemas=True)
    table = envelope.learn([on.sample], None)
    table = SourceTable(
        tuple(replace(one, type="decimal(20,4)") if one.name == "bal" else one for one in table.columns),
        table.key,
    )
    stray = Message(on.topic, 2, None, '{"after":{}}')
    rows = _decoded(spark, envelope, [on, other, stray], table)
    values = {row["bal"] for row in rows}
    assert values == {Decimal("10.5000"), Decimal("1050.0000"), None}
    assert [row[ERROR] for row in rows if row["bal"] is None] == [
        "this is no message of Debezium, or its schema was not seen"
    ]


# ---------------------------------------------------------------- transactions


def test_the_time_of_a_change_is_the_commit_before_and_rows_of_a_snapshot_are_never_late(spark) -> None:
    none = {"sequence": '[null,"50"]'}
    some = [
        _event(0, "r", {"id": 0}, transaction=None).like(0, source={**none, "snapshot": "last"}),
        _event(1, "c", {"id": 1}, number=1).like(1, source=none),
        _event(2, "c", {"id": 2}, commit=100, number=1),
        _event(3, "r", {"id": 3}, commit=90, transaction=None).like(3, source={"snapshot": "incremental"}),
    ]
    first = {row["id"]: row[TIME] for row in _decoded(spark, Debezium(transactions=True), some, SMALL)}
    assert first == {0: 0, 1: 0, 2: 100, 3: 90}
    later = _decoded(spark, Debezium(transactions=True), some, SMALL, floor=120)
    # The event of the first transaction was sent again: it lies below the mark, as it did.
    assert {row["id"]: row[TIME] for row in later} == {0: 120, 1: 50, 2: 100, 3: 120}
    assert all(len(row[ORDER]) == 29 for row in later)


def _end(offset: int, transaction: int, at: int, told_at: int = 1, **events: int) -> Message:
    counts = [{"data_collection": f"s.{table}", "event_count": count} for table, count in events.items()]
    body = {"status": "END", "id": f"{transaction}:{at}", "data_collections": counts, "ts_ms": told_at}
    return Message("p.transaction", offset, None, "{}").like(offset, **body)


@pytest.mark.parametrize(
    # Few are counted in every feed of transactions.
    "collected",
    [pytest.param(100, id="few", marks=pytest.mark.nightly), pytest.param(1, id="many")],
)
def test_transactions_are_counted_by_spark(spark, collected: int) -> None:
    observer = Observer({"s.t"}, collected)
    data = [
        _event(1, "c", {"id": 1}, number=1, commit=100),
        _event(2, "c", {"id": 2}, number=2, commit=100),
        _event(3, "c", {"id": 2}, number=2, commit=100),
    ]
    ends = [_end(0, 6, 100), _end(1, 7, 200, t=2, other=9), _end(2, 8, 300, t=1), _end(3, 9, 400)]
    seen = observer.seen(json_events(frame(spark, data)), json_ends(frame(spark, ends)), State())
    assert Ended("8", 300, 200, {"s.t": 1}) in seen.ended
    assert (seen.reached, seen.copied, seen.went_back) == (400, 0, None)
    state = advance(State(), seen)
    assert (state.mark, list(state.open)) == (200, ["8"])

    last = [_event(4, "c", {"id": 3}, number=1, commit=200, transaction={"id": "8:5", "total_order": 1})]
    old = [_end(1, 7, 200, t=2)]
    seen = observer.seen(json_events(frame(spark, [*data, *last])), json_ends(frame(spark, old)), state)
    assert Arrived("8", "s.t", "t/0", 1, 1, 200) in seen.arrived
    assert advance(state, seen).mark == 400


@pytest.mark.parametrize(
    "collected", [pytest.param(100, id="few"), pytest.param(0, id="many", marks=pytest.mark.nightly)]
)
def test_the_end_of_a_snapshot_and_a_source_that_goes_back_are_seen(spark, collected: int) -> None:
    observer = Observer({"s.t"}, collected)
    row = _event(0, "r", {"id": 0}, transaction=None)
    row = row.like(0, source={"sequence": '[null,"50"]', "snapshot": "last"})
    young = _end(0, 5, 80, told_at=9)
    state = State(mark=100, reached=100, told_at=7)
    seen = observer.seen(json_events(frame(spark, [row])), json_ends(frame(spark, [young])), state)
    assert (seen.copied, seen.went_back) == (50, "5:80")
