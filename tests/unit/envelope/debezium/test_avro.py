"""Avro in Arrow kernels, against fastavro; and messages whose schema a registry has."""

from __future__ import annotations

import io
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calve.config.columns import SourceTable
from calve.decode.avro import Decoder
from calve.decode.messages import Messages, Reader
from calve.envelope.base import Sample
from calve.envelope.debezium import RegisteredDebezium, Registry, registry
from calve.model.columns import ERROR, OP, RAW
from calve.model.errors import BadMessage, RegistryError
from tests.support.kernels import alone, check_among
from tests.unit.envelope.debezium.messages import Message, messages

_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "t", "type": ["null", "string"]},
        {"name": "n", "type": ["null", "bytes"]},
        {"name": "f", "type": ["double", "null"]},
        {"name": "g", "type": "float"},
        {"name": "b", "type": "boolean"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["x", "y"]}},
        {"name": "a", "type": ["null", {"type": "array", "items": ["null", "int"]}]},
        {"name": "m", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 3}},
        {
            "name": "s",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "S",
                    "fields": [{"name": "l", "type": {"type": "array", "items": "string"}}],
                },
            ],
        },
    ],
}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "p.q",
    "fields": [
        {"name": "before", "type": ["null", _ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}
_ARROW_ROW = pa.struct(
    [
        ("id", pa.int64()),
        ("t", pa.string()),
        ("n", pa.binary()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("b", pa.bool_()),
        ("e", pa.string()),
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.string())),
        ("x", pa.binary()),
        ("s", pa.struct([("l", pa.list_(pa.string()))])),
    ]
)
_ARROW = pa.struct([("before", _ARROW_ROW), ("after", _ARROW_ROW), ("op", pa.string())])


def _row(chance: random.Random) -> dict[str, Any]:
    return {
        "id": chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(2**40)]),
        "t": chance.choice([None, "", "é" * chance.randrange(9)]),
        "n": chance.choice([None, bytes(range(chance.randrange(9)))]),
        "f": chance.choice([None, 1.5, -2.25e300]),
        "g": 0.5,
        "b": chance.random() < 0.5,
        "e": chance.choice("xy"),
        "a": chance.choice([None, [], [1, None, -3], list(range(chance.randrange(9)))]),
        "m": {str(number): chance.choice([None, "v"]) for number in range(chance.randrange(4))},
        "x": b"abc",
        "s": chance.choice([None, {"l": ["q"] * chance.randrange(3)}]),
    }


def _encoded(schema: Any, record: Any, number: int = 7) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def _plain(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {**row, "m": dict(row["m"])}


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_what_fastavro_writes_is_read(seed: int, size: int) -> None:
    chance = random.Random(seed)
    rows = [
        {
            "before": chance.choice([None, _row(chance)]),
            "after": chance.choice([None, _row(chance)]),
            "op": chance.choice("cud"),
        }
        for _ in range(size)
    ]
    values = pa.array([_encoded(_ENVELOPE, row) for row in rows], pa.binary())
    found, right = Decoder(_ENVELOPE).decode(values, _ARROW)
    assert [
        {**one, "before": _plain(one["before"]), "after": _plain(one["after"])} for one in found.to_pylist()
    ] == rows
    assert all(right.to_pylist())
    (few, _) = Decoder(_ENVELOPE).decode(values, pa.struct([("op", pa.string())]))
    assert [one["op"] for one in few.to_pylist()] == [one["op"] for one in rows]


@settings(max_examples=25)
@given(st.integers(0, 2**32))
@example(4955)  # reads to its end, with a text that is none
def test_a_message_that_is_cut_or_of_anything_else_is_told_and_spoils_no_other(seed: int) -> None:
    chance = random.Random(seed)
    row = {"before": None, "after": _row(chance), "op": "c"}
    whole = _encoded(_ENVELOPE, row)
    values = [
        whole,
        whole[: chance.randrange(5, len(whole))],
        whole + b"\x00",
        whole[:5],
        chance.randbytes(60),
        whole,
    ]
    found, right = Decoder(_ENVELOPE).decode(pa.array(values, pa.binary()), _ARROW)
    assert right.to_pylist()[0:4] == [True, False, False, False]
    assert right.to_pylist()[5]
    assert [_plain(found.to_pylist()[place]["after"]) for place in (0, 5)] == [row["after"]] * 2


# ---------------------------------------------------------------- a registry


@contextmanager
def _answering(answers: dict[str, tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answers.get(self.path, (404, b"{}"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _schema(body: Any, **more: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"schema": json.dumps(body), **more}).encode()


def test_a_schema_is_asked_for_once() -> None:
    with _answering({"/schemas/ids/7": _schema(_ENVELOPE)}) as (url, asked):
        known = Registry(url)
        assert known.schema(7, "here") == known.schema(7, "there") == _ENVELOPE
        assert asked == ["/schemas/ids/7"]


@pytest.mark.parametrize(
    "answer, words",
    [
        ((404, b""), "has no schema 7"),
        ((401, b""), "answers 401"),
        ((503, b""), "answers 503"),
        ((200, b"<html>"), "is no schema"),
        ((200, b"[]"), "is no schema"),
        ((200, b'{"schemaType":"PROTOBUF","schema":"x"}'), "is PROTOBUF"),
        ((200, b'{"schema":"{}","references":[{"name":"a"}]}'), "refers to others"),
    ],
)
def test_a_registry_that_does_not_help_is_named_with_the_place_and_without_its_login(
    answer, words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0)
    with _answering({"/schemas/ids/7": answer}) as (url, _):
        known = Registry(url.replace("//", "//user:canary@"))
        with pytest.raises(RegistryError) as raised:
            known.schema(7, "topic t, partition t/0, offset 3")
    assert words in raised.value.message
    assert "topic t, partition t/0, offset 3" in raised.value.message
    assert "canary" not in f"{raised.value} {raised.value!r} {known!r}"


def test_a_registry_that_is_down_is_refused_after_some_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0)
    with _answering({}) as (url, _):
        pass
    with pytest.raises(RegistryError, match="is out of reach"):
        Registry(url, timeout_s=1).schema(7, "here")
    with pytest.raises(RegistryError, match="begins with http"):
        Registry("file:///etc/passwd")


def test_a_message_that_is_no_avro_is_refused() -> None:
    with pytest.raises(BadMessage, match="does not begin with a zero"):
        RegisteredDebezium().learn([Message("t", 0, None, '{"after":{}}').sample], None)


def _avro_of(connect: dict[str, Any], known: set[str]) -> Any:
    """A schema of Kafka Connect in Avro, as its converters write it."""
    names = {"int16": "int", "int32": "int", "int64": "long", "struct": "record"}
    kind = names.get(connect["type"], connect["type"])
    made: dict[str, Any] = {"type": kind}
    match kind:
        case "record":
            name = (connect.get("name") or connect["field"]).replace(".", "_").replace("-", "_")
            if name in known:
                made = {"type": name}
            else:
                known.add(name)
                fields = [{"name": one["field"], "type": _avro_of(one, known)} for one in connect["fields"]]
                made = {"type": "record", "name": name, "fields": fields}
        case "array":
            made["items"] = _avro_of(connect["items"], known)
    if "name" in connect and made["type"] in ("int", "long", "string", "bytes", "record"):
        made["connect.name"] = connect["name"]
        made["connect.parameters"] = connect.get("parameters") or {}
    if (made["type"] not in ("record", "array") and len(made) == 1) or (kind == "record" and len(made) == 1):
        made = made["type"]
    return ["null", made] if connect.get("optional") else made


def _as_bytes(connect: dict[str, Any], value: Any) -> Any:
    """A value of JSON as Avro has it."""
    import base64

    if value is None:
        return None
    match connect["type"]:
        case "bytes":
            return base64.b64decode(value)
        case "struct":
            return {one["field"]: _as_bytes(one, value.get(one["field"])) for one in connect["fields"]}
        case "array":
            return [_as_bytes(connect["items"], one) for one in value]
        case "float" | "double":
            return float(value)
    return value


@pytest.mark.spark
def test_avro_and_json_say_the_same(spark) -> None:
    from calve.envelope.debezium import Debezium

    shown = messages("types.jsonl", "on.public.w")
    bodies = [json.loads(one.value or "") for one in shown]
    schema = _avro_of(bodies[0]["schema"], set())
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    rows = [_encoded(schema, _as_bytes(one["schema"], one["payload"])) for one in bodies]
    rows += [rows[0][:-3], b"{}"]
    columns = "topic string, partition string, offset long, key binary, value binary"
    keys = _encoded(key, {"id": 1}, 8)
    with _answering({"/schemas/ids/7": _schema(schema), "/schemas/ids/8": _schema(key)}) as (url, _):
        envelope = RegisteredDebezium(registry=Registry(url))
        text = Debezium(schemas=True)
        table = text.learn([shown[0].sample], None)
        sample = Message("on.public.w", 0, None, None).sample
        sample = type(sample)(sample.topic, sample.partition, 0, keys, rows[0])
        assert envelope.learn([sample], None) == table
        messages_ = [("on.public.w", "on.public.w/0", number, keys, row) for number, row in enumerate(rows)]
        raw = spark.createDataFrame(messages_, columns)
        found = [row.asDict(recursive=True) for row in envelope.decode(raw, table).collect()]
        counted = envelope.events(raw.where(f"offset < {len(shown)}")).collect()
    json_rows = [
        ("on.public.w", "on.public.w/0", n, None, (one.value or "").encode()) for n, one in enumerate(shown)
    ]
    json_frame = spark.createDataFrame(json_rows, columns)
    expected = [row.asDict(recursive=True) for row in text.decode(json_frame, table).collect()]
    assert counted == text.events(json_frame).collect()
    assert [row["number"] for row in counted] == [None, 1, 1, 1]
    for one, other in zip(found, expected, strict=False):
        # A value that cannot be read is shown as it came; a point is its JSON in both, with other spaces.
        for row in (one, other):
            row.pop(RAW)
            row["f8"] = repr(row["f8"])
            row["fa"] = repr(row["fa"])
            row["p"] = None if row["p"] is None else json.loads(row["p"])["x"]
        assert one == other
    assert found[0]["n102"] == Decimal("-12.34")
    assert [row[OP] for row in found[-2:]] == [None, None]
    assert ["fit" in found[-2][ERROR], "no message of Debezium" in found[-1][ERROR]] == [True, True]


@pytest.mark.spark
@pytest.mark.parametrize(
    "mode", ["on", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("str", "dbl", "nano"))]
)
def test_what_a_kernel_reads_is_what_the_envelope_makes(spark, mode: str) -> None:
    """Messages of a connector, and each of their values replaced by others."""
    topic = f"{mode}.public.w"
    shown = messages("types.jsonl", topic)
    bodies = [json.loads(one.value or "") for one in shown]
    fields = {one["field"]: one for one in bodies[0]["schema"]["fields"]}
    columns = {one["field"]: one for one in fields["after"]["fields"]}
    schema = _avro_of(bodies[0]["schema"], set())
    payloads = [_as_bytes(one["schema"], one["payload"]) for one in bodies]
    full = next(one for one in payloads if one["after"] and one["op"] in "cr")
    for name, column in columns.items():
        payloads += [{**full, "after": {**full["after"], name: other}} for other in _others(column)]
    payloads += [{**full, "op": op} for op in "utmx"]
    payloads += [{**full, "op": "d", "before": full["after"], "after": None}, {**full, "after": None}]
    values = [_encoded(schema, one) for one in payloads]
    values += [values[0][:-3], values[0] + b"\0", values[0][:5], b"\0\0\0\0\x09" + values[0][5:], b"{}"]
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    keys = _encoded(key, {"id": 1}, 8)
    answers = {"/schemas/ids/7": _schema(schema), "/schemas/ids/8": _schema(key)}
    with _answering({**answers, "/schemas/ids/9": _schema(schema)}) as (url, _):
        envelope = RegisteredDebezium(registry=Registry(url))
        whole = envelope.learn([Sample(topic, f"{topic}/0", 0, keys, values[0])], None)
        table = _plain_part(envelope, topic, whole)
        raw = spark.createDataFrame(
            [(topic, f"{topic}/0", number, keys, one) for number, one in enumerate(values)],
            "topic string, partition string, offset long, key binary, value binary",
        )
        rows = envelope.decode(raw, table).collect()
        alones = [alone(envelope, table, keys, one, at, topic) for at, one in enumerate(values)]
        kernel = envelope.kernel(topic, table, checks_names=True)
    assert len(table.columns) >= 12, table.names
    assert check_among(alones, rows) >= len(columns)
    assert alones[-5:] == [None] * 5
    # All at once they are what each is by itself, as far as they are read.
    assert kernel is not None
    together = Reader(kernel).read(
        Messages(pa.array([keys] * len(values)), pa.array(values), pa.array(range(len(values))))
    )
    both = list(zip(together.to_pylist(), alones, strict=True))
    assert [
        (repr(one), repr(other)) for one, other in both if one is not None and repr(one) != repr(other)
    ] == []
    assert [one for one, _ in both if one is not None]


def _others(column: dict[str, Any]) -> list[Any]:
    """Values that a column may have, and some that no table holds."""
    match column["type"]:
        case "int16" | "int32":
            return [0, -1, 2**31 - 1, -(2**31), 40_000]
        case "int64":
            return [0, -1, 2**63 - 1, -(2**63), 86_400_000_000, 253_402_300_800_000_000]
        case "float" | "double":
            return [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 3e38]
        case "string":
            return ["", "é\0", "__debezium_unavailable_value", "2026-11-16T12:00:00Z", "1e400", "infinity"]
        case "bytes":
            return [
                b"",
                b"\0",
                b"\x7f" + bytes(15),
                b"\x80" + bytes(15),
                b"\1" * 17,
                b"__debezium_unavailable_value",
            ]
    return []


def _plain_part(envelope: RegisteredDebezium, topic: str, table: SourceTable) -> SourceTable:
    """The columns that kernels read."""
    first, *rest = table.columns
    assert first.name == "id"
    plain = [
        one
        for one in rest
        if envelope.kernel(topic, replace(table, columns=(first, one)), checks_names=True) is not None
    ]
    return replace(table, columns=(first, *plain))
