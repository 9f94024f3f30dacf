"""What messages of Debezium show of their table."""

from __future__ import annotations

import pytest

from calve.config.columns import SourceColumn, SourceTable
from calve.envelope.debezium import Debezium, Declared
from calve.envelope.debezium.schema import Field, from_avro, from_connect
from calve.model.errors import BadMessage, CalveError, ConfigError, SchemaMismatch
from tests.unit.envelope.debezium.messages import Message, messages

ACCT = messages("messages.jsonl", "schon.s.acct")
PLAIN = messages("messages.jsonl", "schoff.s.acct")


def test_a_schema_tells_columns_types_and_key() -> None:
    table = Debezium(schemas=True).learn([ACCT[0].sample], None)
    assert {one.name: one.type for one in table.columns} == {
        "tenant": "int",
        "id": "long",
        "bal": "decimal(18,4)",
        "anynum": "string",
        "at": "timestamptz",
        "ts": "timestamp",
        "d": "date",
        "j": "string",
        "big": "string",
        "arr": "list<int>",
        "b": "binary",
        "u": "uuid",
        "f": "double",
        "en": "boolean",
    }
    assert table.key == ("tenant", "id")
    assert [one.name for one in table.columns if one.required] == ["tenant", "id"]
    assert table.guessed == ()


def test_a_delete_and_a_tombstone_show_the_same_columns_or_none() -> None:
    delete = next(one for one in ACCT if "delete" in one.label)
    tombstone = next(one for one in ACCT if one.value is None)
    envelope = Debezium(schemas=True)
    assert envelope.learn([tombstone.sample, delete.sample], None) == envelope.learn([ACCT[0].sample], None)


def test_a_declared_type_wins_where_values_can_be_read_as_it() -> None:
    declared = SourceTable((SourceColumn("anynum", "decimal(38,28)"), SourceColumn("bal", "string")))
    table = Debezium(schemas=True).learn([ACCT[0].sample], declared)
    assert (table.column("anynum").type, table.column("bal").type) == ("decimal(38,28)", "string")


def test_a_declared_type_that_contradicts_the_schema_is_refused_with_the_place() -> None:
    declared = SourceTable((SourceColumn("d", "timestamp"),))
    with pytest.raises(SchemaMismatch, match=r"topic schon\.s\.acct, .*offset 0: the column 'd' is date"):
        Debezium(schemas=True).learn([ACCT[0].sample], declared)


def test_without_schemas_types_are_guessed_and_the_key_is_that_of_the_message() -> None:
    table = Debezium().learn([PLAIN[0].sample], None)
    assert table.key == ("tenant", "id")
    assert "bal" in table.guessed
    assert table.column("id").type == "long"


def test_a_column_that_is_new_is_added() -> None:
    added = next(one for one in PLAIN if "ADD COLUMN" in one.label)
    table = Debezium().learn([PLAIN[0].sample, added.sample], None)
    assert table.names[-1] == "extra"


@pytest.mark.parametrize(
    "envelope, value, error, words",
    [
        (Debezium(), '{"schema":{},"payload":{}}', ConfigError, "debezium-schemas"),
        (Debezium(), "{", BadMessage, "no JSON"),
        (Debezium(), "[]", BadMessage, "no JSON object"),
        (Debezium(), '{"source":{"connector":"mongodb"},"after":"{}"}', ConfigError, "'mongodb'"),
        (Debezium(), '{"source":{"connector":"oracle"},"after":{}}', ConfigError, "'oracle'"),
        (Debezium(schemas=True), '{"after":{}}', BadMessage, "does not begin with its schema"),
        (Debezium(schemas=True), '{"schema":{', BadMessage, "no JSON"),
        (Debezium(schemas=True), '{"schema":{}}', BadMessage, "no payload"),
    ],
)
def test_what_is_not_of_this_envelope_is_refused_with_its_place(envelope, value, error, words) -> None:
    with pytest.raises(error) as raised:
        envelope.learn([Message("t", 7, None, value).sample], None)
    assert "topic t, partition t/0, offset 7" in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [{"toast": "never"}, {"truncates": "maybe"}, {"infinity": "big"}],
)
def test_a_setting_that_does_not_exist_is_refused(settings) -> None:
    with pytest.raises(ConfigError, match="cannot be"):
        Debezium(**settings)


@pytest.mark.parametrize(
    "settings", [{"decimals": "exact"}, {"times": "seconds"}, {"meanings": {"a": "io.debezium.time.Second"}}]
)
def test_a_way_of_sending_values_that_does_not_exist_is_refused(settings) -> None:
    with pytest.raises(ConfigError):
        Declared(**settings)


def test_a_decimal_that_iceberg_cannot_hold_is_refused_with_a_way_out() -> None:
    field = Field("n", "bytes", "org.apache.kafka.connect.data.Decimal", 2046, 3)
    with pytest.raises(SchemaMismatch) as raised:
        field.type()
    assert "decimal.handling.mode=string" in raised.value.hint


def test_an_avro_schema_says_the_same_as_that_of_kafka_connect() -> None:
    avro = {
        "type": "record",
        "name": "Value",
        "namespace": "p.s.t",
        "fields": [
            {"name": "id", "type": "int"},
            {
                "name": "n",
                "type": [
                    "null",
                    {
                        "type": "bytes",
                        "logicalType": "decimal",
                        "precision": 10,
                        "scale": 2,
                        "connect.name": "org.apache.kafka.connect.data.Decimal",
                    },
                ],
            },
            {"name": "a", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
            {"name": "m", "type": {"type": "map", "values": "string"}},
            {"name": "t", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTime"}]},
        ],
    }
    connect = {
        "type": "struct",
        "optional": False,
        "fields": [
            {"field": "id", "type": "int32", "optional": False},
            {
                "field": "n",
                "type": "bytes",
                "optional": True,
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
            {"field": "a", "type": "array", "optional": True, "items": {"type": "int64", "optional": True}},
            {
                "field": "m",
                "type": "map",
                "optional": False,
                "keys": {"type": "string", "optional": False},
                "values": {"type": "string", "optional": False},
            },
            {"field": "t", "type": "int64", "optional": True, "name": "io.debezium.time.MicroTime"},
        ],
    }
    assert from_avro(avro, {}) == from_connect(connect)
    types = [str(one.type()) for one in from_connect(connect).inside]
    assert types == ["int", "decimal(10,2)", "list<long>", "map<string,string>", "time"]


def test_a_value_of_several_types_is_refused() -> None:
    with pytest.raises(CalveError, match="one of several types: int, string"):
        from_avro({"type": "record", "name": "r", "fields": [{"name": "x", "type": ["int", "string"]}]}, {})
