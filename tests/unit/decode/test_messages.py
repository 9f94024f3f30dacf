"""What kernels read of messages, and what they leave."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from calve.config.columns import SourceTable
from calve.decode import messages as room
from calve.decode.messages import Decoding
from calve.envelope.base import Envelope, Sample
from calve.envelope.cockroachdb import CockroachDB, Kind
from calve.envelope.debezium import Debezium, Declared
from calve.envelope.materialize import Kind as Subscribed
from calve.envelope.materialize import Materialize
from calve.model.columns import CLOCK, OP, ORDER, POSITION, TIME
from tests.support.kernels import alone

TABLE = SourceTable.of(
    "id long primary key, name string not null, total decimal(10,2), day date, at timestamptz, clock time, "
    "code uuid, data binary, open boolean, weight double, wall timestamp, small float"
)
UUID = "7b1f1f6e-0000-4000-8000-000000000001"
ROW = {
    "id": 7,
    "name": 'a "quoted": name',
    "total": 12.5,
    "day": "2026-11-16",
    "at": "2026-11-16T12:00:00.5Z",
    "clock": "12:34:56.789",
    "code": UUID,
    "data": "\\x00ff",
    "open": True,
    "weight": 0.1,
    "wall": "2026-11-16T12:00:00",
    "small": 1.5,
}
READ = {
    "id": 7,
    "name": 'a "quoted": name',
    "total": Decimal("12.50"),
    "day": date(2026, 11, 16),
    "at": datetime(2026, 11, 16, 12, 0, 0, 500_000, UTC),
    "clock": 45_296_789_000,
    "code": bytes.fromhex(UUID.replace("-", "")),
    "data": b"\x00\xff",
    "open": True,
    "weight": 0.1,
    "wall": datetime(2026, 11, 16, 12),  # noqa: DTZ001
    "small": 1.5,
}
GONE = dict.fromkeys(READ) | {"id": 7}
HLC = "1794787200000000000.0000000001"
AT = Decimal("17947872000000000000000000001")


def read(
    envelope: Envelope, message: Any, key: Any = None, table: SourceTable = TABLE, offset: int | None = 5
) -> dict[str, Any] | None:
    said = None if key is None else json.dumps(key).encode()
    text = message if isinstance(message, str) else json.dumps(message)
    return alone(envelope, table, said, text.encode(), offset)


def changefeed(kind: Kind, payload: bool = False) -> CockroachDB:
    return CockroachDB(kind, payload, topic="t")


def enriched(after: Any, **more: Any) -> dict[str, Any]:
    return {"after": after, "op": "u", "source": {"ts_hlc": HLC, "table_name": "t"}, **more}


def bare(row: Any, **more: Any) -> dict[str, Any]:
    return {**row, "__crdb__": {"updated": HLC, **more}}


EMPTY = dict.fromkeys(ROW) | {"id": 7}


@pytest.mark.parametrize(
    "envelope, message, key, expected",
    [
        (changefeed(Kind.WRAPPED), {"after": ROW, "key": [7], "updated": HLC}, None, READ),
        (changefeed(Kind.WRAPPED), {"after": ROW, "updated": HLC, "topic": "t"}, [7], READ),
        (changefeed(Kind.WRAPPED), {"after": None, "key": [7], "updated": HLC}, None, GONE),
        (changefeed(Kind.WRAPPED), {"after": None, "updated": HLC}, [7], GONE),
        (changefeed(Kind.ENRICHED), enriched(ROW), {"id": 7}, READ),
        (changefeed(Kind.ENRICHED), enriched(None), {"id": 7}, GONE),
        (changefeed(Kind.ENRICHED), enriched(None, key={"id": 7}), None, GONE),
        (changefeed(Kind.ENRICHED, True), {"payload": enriched(ROW)}, None, READ),
        (changefeed(Kind.ENRICHED, True), {"payload": enriched(None)}, {"payload": {"id": 7}}, GONE),
        (changefeed(Kind.BARE), bare(ROW), None, READ),
        (changefeed(Kind.BARE), bare(EMPTY), None, GONE),
    ],
)
def test_a_plain_message_of_a_changefeed_is_read(envelope, message, key, expected) -> None:
    op = "upsert" if expected is READ else "delete"
    assert read(envelope, message, key) == {**expected, OP: op, TIME: AT}


@pytest.mark.parametrize(
    "kind, message",
    [
        (Kind.WRAPPED, {"resolved": HLC}),
        (Kind.WRAPPED, {"after": ROW, "updated": "soon"}),
        (Kind.WRAPPED, {"after": ROW}),
        (Kind.WRAPPED, {"after": ROW, "updated": HLC, "topic": "other"}),
        (Kind.WRAPPED, {"after": {**ROW, "id": None}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "new": 1}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "total": 1.005}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "name": {"a": 1}}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "at": "2026-11-16T12:00:00"}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "wall": "2026-11-16T12:00:00Z"}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "small": 1e39}, "updated": HLC}),
        (Kind.WRAPPED, {"after": {**ROW, "clock": "12:34"}, "updated": HLC}),
        (Kind.WRAPPED, {"after": None, "updated": HLC}),
        (Kind.WRAPPED, {"updated": HLC, "key": [7]}),
        (Kind.WRAPPED, {"after": None, "key": [None], "updated": HLC}),
        (Kind.WRAPPED, {"after": None, "key": [7, 8], "updated": HLC}),
        (Kind.ENRICHED, enriched(None)),
        (Kind.ENRICHED, {"after": ROW, "source": {"ts_hlc": HLC, "table_name": "other"}}),
        (Kind.BARE, bare({**EMPTY, "id": None})),
        (Kind.BARE, bare(ROW, resolved=HLC)),
        (Kind.BARE, bare({**ROW, "new": 1})),
        (Kind.WRAPPED, "null"),
        (Kind.WRAPPED, ' {"after": null}'),
        (Kind.WRAPPED, '{"after": '),
        (Kind.WRAPPED, f'{{"after": {{"id": 1}}, "updated": "{HLC}"}} {{}}'),
        (Kind.WRAPPED, f'{{"after": {{"id": 1, "total": 5e-195}}, "updated": "{HLC}"}}'),
        (Kind.WRAPPED, f'{{"after": [1], "updated": "{HLC}"}}'),
    ],
)
def test_what_is_not_plain_is_left(kind, message) -> None:
    assert read(changefeed(kind), message) is None


SUBSCRIBED = {name: value for name, value in ROW.items() if name != "data"}
SMALLER = SourceTable(tuple(one for one in TABLE.columns if one.name != "data"), ("id",))


@pytest.mark.parametrize("meta", [{"mz_timestamp": 9, "mz_diff": -2}, {"mz_timestamp": "9", "mz_diff": "-2"}])
@pytest.mark.parametrize(
    "times",
    [
        {"at": "2026-11-16T12:00:00.5Z", "wall": "2026-11-16 12:00:00"},
        {"at": 1_794_830_400_500, "wall": 1_794_830_400_000},
    ],
)
def test_a_row_of_a_subscription_is_read_in_numbers_or_texts(meta, times) -> None:
    found = read(Materialize(), {**meta, **SUBSCRIBED, **times}, table=SMALLER)
    expected = {name: value for name, value in READ.items() if name != "data"}
    assert found == {**expected, OP: -2, TIME: 9, ORDER: 0}


def test_states_of_a_subscription() -> None:
    message = {"mz_timestamp": 9, "mz_state": "upsert", **SUBSCRIBED}
    found = read(Materialize(Subscribed.UPSERT), message, table=SMALLER)
    assert found is not None
    assert (found[OP], found[TIME], found["id"]) == ("upsert", 9, 7)
    debezium = {"mz_timestamp": 9, "mz_state": "insert", "id": 7, "before_name": None, "after_name": "a"}
    small = SourceTable.of("id long primary key, name string")
    assert read(Materialize(Subscribed.DEBEZIUM), debezium, table=small) == {
        "id": 7,
        "name": "a",
        OP: "insert",
        TIME: 9,
    }


@pytest.mark.parametrize(
    "message",
    [
        {"mz_timestamp": 9, "mz_progressed": True},
        {"mz_timestamp": 9, "mz_progressed": True, "mz_diff": 1, "id": 7},
        {"mz_timestamp": 9, "mz_diff": 0, "id": 7},
        {"mz_timestamp": -1, "mz_diff": 1, "id": 7},
        {"mz_diff": 1, "id": 7},
        {"mz_timestamp": 9, "id": 7},
        {"mz_timestamp": 9, "mz_diff": 1, "id": 7, "new": 1},
    ],
)
def test_progress_and_what_is_wrong_are_left(message) -> None:
    assert read(Materialize(), message, table=SMALLER) is None


# ---------------------------------------------------------------- Debezium

SOURCE = {
    "connector": "postgresql",
    "snapshot": "false",
    "sequence": '["100","101"]',
    "lsn": 101,
    "ts_ms": 1_700_000_000_000,
    "schema": "s",
    "table": "t",
}
SENT = ROW | {
    "total": base64.b64encode((1250).to_bytes(3, "big")).decode(),
    "day": (date(2026, 11, 16) - date(1970, 1, 1)).days,
    "clock": 45_296_789_000,
    "wall": 1_794_830_400_000_000,
    "data": base64.b64encode(b"\x00\xff").decode(),
}


def event(op: str, after: Any, before: Any = None, source: Any = SOURCE, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, **more}


HEX = "{:016X}".format


def position(*numbers: int, streams: str = "1") -> str:
    return HEX(numbers[0]) + HEX(numbers[1]) + streams + HEX(numbers[2])


@pytest.mark.parametrize(
    "message, op, expected",
    [
        (event("c", SENT, transaction={"total_order": 3}), "insert", (READ, position(100, 101, 3))),
        (event("u", SENT), "upsert", (READ, position(100, 101, 5))),
        (event("d", None, {"id": 7}), "delete", (GONE, position(100, 101, 5))),
        (
            event("r", SENT, source={**SOURCE, "snapshot": "true", "sequence": '[null,"101"]'}),
            "upsert",
            (READ, position(101, 101, 5, streams="0")),
        ),
    ],
)
def test_a_plain_event_is_read(message, op, expected) -> None:
    row, at = expected
    assert read(Debezium(), message) == {**row, OP: op, POSITION: at, CLOCK: SOURCE["ts_ms"]}


def test_an_event_without_an_offset_says_that_nothing_tells_it_apart() -> None:
    found = read(Debezium(), event("u", SENT), offset=None)
    assert found is not None
    assert found[POSITION] == HEX(100) + HEX(101) + "1?"


def test_the_position_of_an_event_of_mysql() -> None:
    source = {"connector": "mysql", "snapshot": "false", "file": "binlog.000012", "pos": 400, "row": 1}
    found = read(Debezium(), event("d", None, {"id": 7}, source))
    assert found is not None
    assert found[POSITION] == HEX(12) + HEX(400) + "1" + HEX(1) + "0" + HEX(0)
    copied = read(Debezium(), event("r", SENT, source={**source, "snapshot": "true"}))
    assert copied is not None
    assert copied[POSITION] == HEX(12) + HEX(400) + "0" + HEX(1) + "1" + HEX(5)


@pytest.mark.parametrize(
    "message",
    [
        event("t", None),
        event("t", SENT),
        event("x", SENT),
        event("m", None),
        event("u", None),
        event("d", None),
        event("u", {**SENT, "id": None}),
        event("u", {**SENT, "name": "__debezium_unavailable_value"}),
        event("u", {**SENT, "data": base64.b64encode(b"__debezium_unavailable_value").decode()}),
        event("u", {**SENT, "new": 1}),
        event("u", {**SENT, "day": 3_000_000}),
        event("u", {**SENT, "clock": 86_400_000_000}),
        event("u", {**SENT, "total": {"scale": 2, "value": "BOI="}}),
        event("u", {**SENT, "total": base64.b64encode(b"\x7f" * 9).decode()}),
        event("u", {**SENT, "at": "infinity"}),
        event("u", SENT, source={**SOURCE, "connector": "mongodb"}),
        event("u", SENT, source={**SOURCE, "sequence": None}),
    ],
)
def test_an_event_that_is_not_plain_is_left(message) -> None:
    assert read(Debezium(), message) is None


@pytest.mark.parametrize(
    "meaning, number",
    [
        ("Timestamp", -1),
        ("MicroTimestamp", -1000),
        ("NanoTimestamp", -999_001),
        ("NanoTimestamp", -1_000_000),
    ],
)
def test_moments_before_1970_in_all_units(meaning, number) -> None:
    table = SourceTable.of("id long primary key, wall timestamp")
    envelope = Debezium(declared=Declared(meanings={"wall": f"io.debezium.time.{meaning}"}))
    found = read(envelope, event("u", {"id": 7, "wall": number}), table=table)
    assert found is not None
    assert found["wall"] == datetime(1969, 12, 31, 23, 59, 59, 999_000)  # noqa: DTZ001


def with_schema(message: Any, more: str = "") -> str:
    fields = [{"type": "int64", "field": "id"}, {"type": "string", "optional": True, "field": "name"}]
    row = {"type": "struct", "fields": fields, "field": "after", "name": "t" + more}
    schema = json.dumps({"type": "struct", "fields": [row]}, separators=(",", ":"))
    return f'{{"schema":{schema},"payload":{json.dumps(message)}}}'


def test_messages_with_schemas_are_read_once_theirs_was_seen() -> None:
    table = SourceTable.of("id long primary key, name string")
    message = event("c", {"id": 7, "name": "a"})
    envelope = Debezium(schemas=True)
    assert envelope.kernel("t", table, checks_names=True) is None
    for more in ("", "2"):
        envelope.learn([Sample("t", "0", 1, None, with_schema(message, more).encode())], table)
    for more in ("", "2"):
        found = read(envelope, with_schema(message, more), table=table)
        assert found == {
            "id": 7,
            "name": "a",
            OP: "insert",
            POSITION: position(100, 101, 5),
            CLOCK: SOURCE["ts_ms"],
        }
    assert read(envelope, with_schema(message, "3"), table=table) is None
    assert read(envelope, with_schema(None), table=table) is None


# ---------------------------------------------------------------- batches


def batch(values: Sequence[bytes | None], topics: list[str | None] | None = None) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "topic": pa.array(topics or ["t"] * count, pa.string()),
        "partition": pa.array(["0"] * count),
        "offset": pa.array(range(count), pa.int64()),
        "key": pa.array([b"[1]"] * count),
        "value": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


SMALL = SourceTable.of("id long primary key, note string")


def row(number: int, note: Any = "a", **more: Any) -> bytes:
    return json.dumps({"after": {"id": number, "note": note, **more}, "updated": HLC}).encode()


def decoded(values: Sequence[bytes | None], topics: Any = None, checks: bool = True) -> list[dict[str, Any]]:
    kernel = changefeed(Kind.WRAPPED).kernel("t", SMALL, checks_names=checks)
    assert kernel is not None
    rows = outcome(Decoding({"t": kernel}, "c"), batch(values, topics))
    return sorted(rows, key=lambda one: one["offset"])


def outcome(decoding: Decoding, messages: pa.RecordBatch) -> list[dict[str, Any]]:
    """Messages, and their changes by the names of their topic."""
    rows = [one for part in decoding(iter([messages])) for one in part.to_pylist()]
    for one in rows:
        if one["c"] is not None:
            fields = decoding.structs.places[one["topic"]].fields
            one["c"] = {name: one["c"][field] for name, field in fields.items()}
    return rows


def test_every_message_is_there_once_as_a_change_or_as_it_came() -> None:
    values: list[bytes | None] = [row(number) for number in range(100)]
    values[40], values[60], values[70] = None, b"nothing", b'{"after": }'
    values[80] = json.dumps({"resolved": HLC}).encode()
    found = decoded(values)
    left = [one["offset"] for one in found if one["c"] is None]
    assert [one["value"] for one in found if one["c"] is None] == [values[at] for at in left]
    assert {40, 60, 70, 80} <= set(left)
    assert len(left) < 20
    for one in found:
        if one["c"] is not None:
            assert (one["c"]["id"], one["key"], one["value"]) == (one["offset"], None, None)


def test_bytes_that_are_no_text_leave_their_batch() -> None:
    found = decoded([row(0), b'{"after": "\xff"}'])
    assert [one["c"] for one in found] == [None, None]


def test_messages_of_other_topics_and_of_none_stay_as_they_are() -> None:
    found = decoded([row(0), row(1), row(2)], ["t", "other", None])
    assert [one["c"] is None for one in found] == [False, True, True]
    assert found[1]["value"] == row(1)


@pytest.mark.parametrize("at", [0, 1, 50, 98, 99])
@pytest.mark.parametrize(
    "strange",
    [
        {"id": 7, "note": "a", "new": None},
        {"id": 7, "new": 1},
        {"id": 7, "note": "a", "new": {"note": 1}},
    ],
)
def test_one_message_with_a_new_column_is_left_wherever_it_stands(at: int, strange: Any) -> None:
    values: list[bytes | None] = [row(number) for number in range(100)]
    values[at] = json.dumps({"after": strange, "updated": HLC}).encode()
    found = decoded(values)
    left = [one["offset"] for one in found if one["c"] is None]
    assert at in left
    assert len(left) <= room.LEAF
    assert not [one for one in decoded(values, checks=False) if one["c"] is None]


def test_columns_that_come_and_go_are_seen_where_as_many_names_are_there() -> None:
    values = [
        json.dumps({"after": {"id": at} | ({"note": "a", "new": 1} if at % 2 else {}), "updated": HLC})
        for at in range(40)
    ]
    found = decoded([one.encode() for one in values])
    assert all(one["c"] is None for one in found[1::2])


def test_blanks_hide_no_column() -> None:
    found = decoded([b'{ "after" : { "id" : 1 , "new" : 2 } , "updated" : "%s" }' % HLC.encode()])
    assert found[0]["c"] is None


@pytest.mark.parametrize("key", [[7, "a"], ["]", 7], ["a", "b"]])
def test_the_key_of_several_types_is_in_the_way_of_no_check(key: Any) -> None:
    kinds = ["long" if isinstance(one, int) else "string" for one in key]
    table = SourceTable.of(f"a {kinds[0]}, b {kinds[1]}, v string", key=["a", "b"])
    envelope = changefeed(Kind.WRAPPED)
    after = {"a": key[0], "b": key[1], "v": "x"}
    found = read(envelope, {"after": after, "key": key, "updated": HLC}, table=table)
    gone = read(envelope, {"after": None, "key": key, "updated": HLC}, table=table)
    if key[0] != "]":  # rare enough to be left
        assert found == {**after, OP: "upsert", TIME: AT}
        assert gone == {**after, "v": None, OP: "delete", TIME: AT}
    new = {"after": {**after, "new": 1}, "key": key, "updated": HLC}
    assert read(envelope, new, table=table) is None


def test_the_key_of_a_delete_that_arrow_makes_zero_of_is_left() -> None:
    table = SourceTable.of("d decimal(10,2) primary key, name string not null")
    for kind, message, key in (
        (Kind.WRAPPED, {"after": None, "updated": HLC}, b"[54936761408572968136e-195]"),
        (Kind.ENRICHED, enriched(None), b'{"d": 54936761408572968136e-195}'),
    ):
        text = json.dumps(message).encode()
        assert alone(changefeed(kind), table, key, text) is None
        assert (
            alone(changefeed(kind), table, key.replace(b"54936761408572968136e-195", b"1e-2"), text)
            is not None
        )


def test_a_column_called_key_is_no_key() -> None:
    table = SourceTable.of("a long, b long, key long[]", key=["a", "b"])
    message: dict[str, Any] = {"after": {"a": 1, "b": 2, "key": [3]}, "key": [1, 2], "updated": HLC}
    found = read(changefeed(Kind.WRAPPED), message, table=table)
    assert found is not None
    assert found["key"] == [3]
    both = [message, {"after": {**message["after"], "key": [4]}, "updated": HLC}]
    kernel = changefeed(Kind.WRAPPED).kernel("t", table, checks_names=True)
    assert kernel is not None
    texts = [json.dumps(one).encode() for one in both]
    rows = outcome(Decoding({"t": kernel}, "c"), batch(texts))
    assert [one["c"]["key"] for one in rows] == [[3], [4]]


def test_a_change_is_not_larger_because_there_are_other_topics() -> None:
    def size(topics: int) -> int:
        names = [f"t{number}" for number in range(topics)]
        kernels = {name: changefeed(Kind.WRAPPED).kernel(name, TABLE, checks_names=True) for name in names}
        decoding = Decoding({name: kernel for name, kernel in kernels.items() if kernel}, "c")
        messages = batch([json.dumps({"after": ROW, "updated": HLC}).encode()] * 400, ["t0"] * 400)
        (found,) = decoding(iter([messages]))
        assert found["c"].null_count == 0
        return int(found.nbytes)

    assert size(100) == size(1)


def test_a_message_that_is_cut_off_is_not_made_whole_by_the_next() -> None:
    """Together they are as many values as messages: each to its own all the same."""
    rest = 20
    cut = row(100)[:-1] + b', "z":'
    values = [cut, row(101) + b"}", row(102) + row(103)]
    found = decoded([*values, *(row(number) for number in range(rest))])
    assert [one["value"] for one in found[:3]] == values
    ids = [one["c"]["id"] for one in found if one["c"] is not None]
    assert ids == list(range(rest))[rest - len(ids) :]
    assert ids


def test_a_key_that_is_cut_off_is_not_made_whole_by_the_next() -> None:
    kernel = changefeed(Kind.ENRICHED).kernel("t", SMALL, checks_names=True)
    assert kernel is not None
    keys = [b'{"id": 1, "z":', b'{"id": 2}}', b'{"id": 3}{"id": 4}']
    texts = [json.dumps(enriched(None)).encode()] * 3
    messages = batch(texts).set_column(3, "key", pa.array(keys))
    assert [one["c"] for one in outcome(Decoding({"t": kernel}, "c"), messages)] == [None] * 3


def test_names_in_texts_are_no_names() -> None:
    found = decoded([row(number, note='{"a": 1, "b": "c"}' if number % 3 else "a") for number in range(50)])
    assert not [one for one in found if one["c"] is None]


def test_what_never_parses_costs_no_halving_for_long(monkeypatch) -> None:
    asked: list[int] = []
    parse = vars(room)["parse_objects"]

    def counted(texts: pa.Array, schema: pa.Schema, **more: Any) -> pa.RecordBatch:
        asked.append(len(more["text"]))
        return parse(texts, schema, **more)

    monkeypatch.setattr(room, "parse_objects", counted)
    values: list[bytes | None] = [row(number, {"json": 1}) for number in range(20_000)]
    assert not [one for one in decoded(values) if one["c"] is not None]
    assert sum(asked) < 6 * sum(len(one or b"") for one in values)
