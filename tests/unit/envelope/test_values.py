"""Values that have no exact place in their column, or hardly one: as they are, or an error of their row."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from calve.config.columns import SourceTable
from calve.envelope.base import Envelope
from calve.envelope.cockroachdb import CockroachDB
from calve.envelope.cockroachdb import Kind as Changefeed
from calve.envelope.exact import UNREADABLE
from calve.envelope.materialize import Kind as Subscribed
from calve.envelope.materialize import Materialize
from calve.model.columns import ERROR, OP, UNFIT
from tests.support.kernels import check_same

pytestmark = pytest.mark.spark

HLC = "1794787200000000000.0000000000"
SCHEMA = "topic string, partition string, offset long, key binary, value binary"


def wrapped(after: str, key: str = "[1]") -> str:
    return f'{{"after": {after}, "key": {key}, "updated": "{HLC}"}}'


def bare(after: str) -> str:
    return f'{after[:-1]}, "__crdb__": {{"updated": "{HLC}", "key": [1]}}}}'


def enriched(after: str) -> str:
    return f'{{"after": {after}, "op": "c", "source": {{"ts_hlc": "{HLC}"}}}}'


def subscribed(after: str) -> str:
    return f'{{"mz_timestamp": 7, "mz_diff": 1, {after[1:]}'


WAYS: dict[str, tuple[Envelope, Any]] = {
    "wrapped": (CockroachDB(), wrapped),
    "bare": (CockroachDB(Changefeed.BARE), bare),
    "enriched": (CockroachDB(Changefeed.ENRICHED), enriched),
    "materialize": (Materialize(Subscribed.DIFF), subscribed),
}


def decoded(spark: Any, envelope: Envelope, table: SourceTable, messages: list[str], key: str | None = None):
    rows = [
        ("t", "0", number, None if key is None else key.encode(), message.encode())
        for number, message in enumerate(messages)
    ]
    frame = spark.createDataFrame(rows, SCHEMA)
    found = envelope.decode(frame, table).collect()
    check_same(envelope, table, [(one[3], one[4], one[2]) for one in rows], found)
    return found


def read(spark: Any, way: str, kind: str, values: list[str]) -> list[Any]:
    """What a column of a type is read as, for each of some JSON values: a value, or `ERROR`."""
    envelope, message = WAYS[way]
    table = SourceTable.of({"id": "long", "n": "long not null", "v": kind}, key=["id"])
    texts = [message(f'{{"id": 1, "n": 1, "v": {value}}}') for value in values]
    return [
        row["v"] if row[ERROR] is None else _said(row[ERROR])
        for row in decoded(spark, envelope, table, texts)
    ]


def _said(error: str) -> str:
    assert "'v'" in error or error in (UNFIT, UNREADABLE), error
    return ERROR


DECIMALS = {
    "1": Decimal("1.00"),
    "1.5": Decimal("1.50"),
    "1.50000000000000000000000000000000000000000000": Decimal("1.50"),
    "4E+2": Decimal("400.00"),
    "12345678.90": Decimal("12345678.90"),
    "-0.01": Decimal("-0.01"),
    "0E-10": Decimal("0.00"),
    "null": None,
    "1.005": ERROR,
    '"1.5"': Decimal("1.50"),
    "120e-3": Decimal("0.12"),
    "1205e-3": ERROR,
    '"1.005"': ERROR,
    "1.00000001": ERROR,
    "99999999.999": ERROR,
    "123456789": ERROR,
    "1e400": ERROR,
    '"NaN"': ERROR,
}
FULL = {
    "1.005": Decimal("1.005000000"),
    "12345678901234567890123456789.123456789": Decimal("12345678901234567890123456789.123456789"),
    "0.1234567891": ERROR,
    "12345678901234567890123456789.1234567891": ERROR,
    "1.5E-7": Decimal("0.000000150"),
    "1.5E-12": ERROR,
    "123456789012345678901234567890.5": ERROR,
    "5178.7059778438358e+34": ERROR,
}
HIDDEN = {f"1.{'0' * 30}1": ERROR, f"1.{'9' * 40}": ERROR, "1E-40": ERROR, "1.5e-40": ERROR, "5e-195": ERROR}
LISTS = {
    "[1.5, null, 2]": [Decimal("1.50"), None, Decimal("2.00")],
    "[]": [],
    "[1.005]": ERROR,
    "[1, 1.00000001]": ERROR,
    f"[1.{'0' * 30}1]": ERROR,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_decimal_with_more_digits_than_its_column_is_an_error_and_never_rounded(spark, way):
    for kind, values in (
        ("decimal(10,2)", DECIMALS | HIDDEN),
        ("decimal(38,9)", FULL),
        ("decimal(10,2)[]", LISTS),
    ):
        assert dict(zip(values, read(spark, way, kind, list(values)), strict=True)) == values


def test_decimals_inside_of_maps_and_structs_are_not_rounded_either(spark):
    kind = "map<string,decimal(10,2)>"
    assert read(spark, "wrapped", kind, ['{"a": 1.5}', '{"a": 1.005}']) == [{"a": Decimal("1.50")}, ERROR]
    kind = "struct<a: decimal(10,2), b: list<struct<c: decimal(4,1)>>>"
    values = ['{"a": 1.5, "b": [{"c": 2.5}, null]}', '{"a": 1.5, "b": [{"c": 2.55}]}', '{"a": 1.005}', "null"]
    found = read(spark, "wrapped", kind, values)
    assert found[0].asDict(recursive=True) == {"a": Decimal("1.50"), "b": [{"c": Decimal("2.5")}, None]}
    assert found[1:] == [ERROR, ERROR, None]


BEYOND = ["1e400", "-1e999", "1.7976931348623159e308", "1" + "0" * 400]
FLOATS = {
    "0.1": 0.1,
    "-1.7976931348623157e308": -1.7976931348623157e308,
    '"Infinity"': math.inf,
    '"-Infinity"': -math.inf,
    "null": None,
    "true": ERROR,
} | dict.fromkeys(BEYOND, ERROR)


@pytest.mark.parametrize("way", ["wrapped", "materialize"])
def test_a_number_that_no_float_holds_is_an_error_and_never_infinite(spark, way):
    *found, none = read(spark, way, "double", [*FLOATS, '"NaN"'])
    assert dict(zip(FLOATS, found, strict=True)) == FLOATS
    assert math.isnan(none)
    single = {"1.5": 1.5, "3.5e38": ERROR, '"Infinity"': math.inf, "1e400": ERROR}
    assert dict(zip(single, read(spark, way, "float", list(single)), strict=True)) == single
    lists = ['[1.5, "-Infinity", null]', "[-Infinity]", '[1.5, 1e400, "Infinity"]']
    assert read(spark, way, "double[]", lists) == [[1.5, -math.inf, None], [-math.inf], ERROR]


def test_an_infinite_number_is_known_by_its_own_place_in_the_message(spark):
    table = SourceTable.of("id long primary key, v double, w map<string,double>")
    after = '{"id": 1, "v": "Infinity", "w": {"v": 1.5, "w": "-Infinity"}}'
    (row,) = decoded(spark, CockroachDB(), table, [wrapped(after)[:-1] + ', "before": {"v": 1e400}}'])
    assert (row["v"], row["w"], row[ERROR]) == (math.inf, {"v": 1.5, "w": -math.inf}, None)
    (row,) = decoded(spark, CockroachDB(), table, [wrapped(after.replace("1.5", "1e400"))])
    assert row[ERROR] == "column 'w' is no map<string,double>"


def test_the_key_of_a_delete_is_no_infinite_number_either(spark):
    table = SourceTable.of("id float primary key, v long")
    keys = ["1.5", '"Infinity"', "1e400", "3.5e38"]
    found = decoded(spark, CockroachDB(), table, [wrapped("null", f"[{key}]") for key in keys])
    assert [(row["id"], row[OP]) for row in found[:2]] == [(1.5, "delete"), (math.inf, "delete")]
    for row in found[2:]:
        assert "'id' is missing, or is no float" in row[ERROR]


DATES = {
    '"2026-11-16"': datetime.date(2026, 11, 16),
    '"0001-01-01"': datetime.date(1, 1, 1),
    '"9999-12-31"': datetime.date(9999, 12, 31),
    "null": None,
} | dict.fromkeys(
    [
        '"0044-03-15 BC"',
        '"10000-01-01"',
        '"12026-1-16"',
        '"0000-01-01"',
        '"infinity"',
        '"-infinity"',
        '"2026"',
        '"2026-02-30"',
        '"2026-11-16 and more"',
        "7",
    ],
    ERROR,
)
INSTANTS = {
    "2026-11-16T12:34:56.789": datetime.datetime(2026, 11, 16, 12, 34, 56, 789000),  # noqa: DTZ001
    "9999-12-31T23:59:59.999999": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
} | dict.fromkeys(
    [
        "infinity",
        "-infinity",
        "10000-01-01T00:00:00",
        "0000-12-31T00:00:00",
        "-0001-01-01T00:00:00",
        "2026-02-30T00:00:00",
        "0044-03-15T00:00:00 BC",
    ],
    ERROR,
)


IN_PART = dict.fromkeys(["2026-11", "12:34", "T12:34", "T12:34:56.789+01:00", "2026-1-6 1:2:3"], ERROR)


@pytest.mark.parametrize("way", ["wrapped", "materialize"])
def test_a_moment_without_a_date_is_an_error_and_spark_makes_nothing_up(spark, way):
    # For Materialize a number is milliseconds.
    texts = [*IN_PART, *(["2026"] if way == "wrapped" else []), "2026-11-16T12:34:56.789"]
    wanted = [ERROR] * (len(texts) - 1)
    *found, whole = read(spark, way, "timestamptz", [f'"{text}"' for text in texts])
    assert (found, whole) == (wanted, datetime.datetime(2026, 11, 16, 12, 34, 56, 789000))  # noqa: DTZ001
    *found, whole = read(spark, way, "timestamp[]", [f'["{text}"]' for text in texts])
    assert (found, whole) == (wanted, [datetime.datetime(2026, 11, 16, 12, 34, 56, 789000)])  # noqa: DTZ001


def test_a_moment_of_a_column_without_a_zone_has_none_and_so_in_lists_and_keys(spark):
    zoned = ["2026-11-16T12:34:56Z", "2026-11-16T12:34:56+01:00", "2026-11-16T12:34:56-05", "2026"]
    for way in ("wrapped", "materialize"):
        assert read(spark, way, "timestamp", [f'"{text}"' for text in zoned[:3]]) == [ERROR] * 3
    assert read(spark, "wrapped", "timestamp", ['"2026"']) == [ERROR]
    assert read(spark, "wrapped", "timestamp[]", [f'["{text}"]' for text in zoned]) == [ERROR] * 4
    table = SourceTable.of("at timestamp primary key")
    messages = [wrapped("null", f'["{text}"]') for text in [*zoned, "2026-11-16T12:34:56"]]
    found = decoded(spark, CockroachDB(), table, messages)
    assert [row[OP] for row in found] == [None] * 4 + ["delete"]


@pytest.mark.parametrize("way", ["wrapped", "materialize"])
def test_dates_and_times_beyond_the_years_1_to_9999_are_errors(spark, way):
    assert dict(zip(DATES, read(spark, way, "date", list(DATES)), strict=True)) == DATES
    found = read(spark, way, "timestamp", [f'"{text}"' for text in INSTANTS])
    assert dict(zip(INSTANTS, found, strict=True)) == INSTANTS
    found = read(spark, way, "timestamptz", [f'"{text}Z"' for text in INSTANTS])
    assert [one == ERROR for one in found] == [one == ERROR for one in INSTANTS.values()]
    lists = ['["2026-11-16", null]', '["0044-03-15 BC"]', '["2026-11-16", "infinity"]']
    assert read(spark, way, "date[]", lists) == [[datetime.date(2026, 11, 16), None], ERROR, ERROR]
    assert read(spark, way, "timestamp[]", ['["10000-01-01T00:00:00"]']) == [ERROR]


def test_bytes_that_are_no_hexadecimal_digits_are_an_error_also_in_lists(spark):
    values = {r'"\\x6869"': b"hi", r'"\\x"': b"", r'"\\x123"': ERROR, r'"\\xzz"': ERROR, '"hello"': ERROR}
    for way in ("wrapped", "materialize"):
        assert read(spark, way, "bytes", list(values)) == list(values.values())
        lists = [f"[{value}, null]" for value in values]
        wanted = [one if one == ERROR else [one, None] for one in values.values()]
        assert read(spark, way, "bytes[]", lists) == wanted
    numbers = {"[104,105]": b"hi", "[]": b"", "[300]": ERROR, "[104,null]": ERROR, "[-1]": ERROR}
    assert read(spark, "materialize", "bytes", list(numbers)) == list(numbers.values())


def test_the_key_of_a_delete_is_no_other_number(spark):
    table = SourceTable.of("id decimal(38,9) primary key, v long")
    keys = {
        "1.5": Decimal("1.500000000"),
        "12345678901234567890.123456789": Decimal("12345678901234567890.123456789"),
        "0.12345678901234": ERROR,
        "1.00000000000000000000001": ERROR,
    }
    for by_message in (False, True):
        found = []
        for key in keys:
            texts = [f'{{"after": null, "updated": "{HLC}"}}' if by_message else wrapped("null", f"[{key}]")]
            (row,) = decoded(spark, CockroachDB(), table, texts, f"[{key}]" if by_message else None)
            found.append(row["id"] if row[ERROR] is None else ERROR)
            assert row[OP] == ("delete" if row[ERROR] is None else None)
        assert dict(zip(keys, found, strict=True)) == keys


def test_columns_have_any_name(spark):
    columns = {"a.b": "long", "`v`": "uuid", "c`d.e": "decimal(4,1)", "select": "date[]", '"q"': "string"}
    table = SourceTable.of(columns, key=["a.b"])
    row = {
        "a.b": 1,
        "`v`": "63616665-6630-3064-6465-616462656566",
        "c`d.e": 1.5,
        "select": ["2026-11-16"],
        '"q"': {"x.y": 1},
    }
    wanted = (1, b"cafef00ddeadbeef", Decimal("1.5"), [datetime.date(2026, 11, 16)], '{"x.y":1}', None)
    for envelope, message in WAYS.values():
        if envelope != CockroachDB(Changefeed.BARE):
            (found,) = decoded(spark, envelope, table, [message(json.dumps(row))])
            assert (*(found[name] for name in columns), found[ERROR]) == wanted


DOCUMENT = '{"n": 1234567890.12345678901234567890, "s": 1.10, "e": 1e400, "t": "\\"\\\\", "a": [-1.0E-7, ""]}'
TEXTS = {
    DOCUMENT: DOCUMENT.replace(": ", ":").replace(", ", ","),
    "1.10": "1.10",
    "1e400": "1e400",
    "-0.0": "-0.0",
    "5": "5",
    "true": "true",
    "123456789012345678901234567890": "123456789012345678901234567890",
    "null": None,
    '{"__crdb_json_null__": true, "x": 1.10}': '{"__crdb_json_null__":true,"x":1.10}',
    '[1.10, "\\ufdd1"]': '[1.10,"\ufdd1"]',
    '[1.10, "\\uFDD0"]': ERROR,
    '[1.10, "\ufdd0"]': ERROR,
}
STRINGS = {'"5"': "5", '"1.10"': "1.10", '""': "", '"{\\"x\\": 1.10}"': '{"x": 1.10}', '"a\\u0000"': "a\x00"}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_inside_of_json_keep_all_their_digits(spark, way):
    expected = {**TEXTS, **STRINGS}
    found = read(spark, way, "string", list(expected))
    assert dict(zip(expected, found, strict=True)) == expected


@pytest.mark.parametrize("way", ["wrapped", "materialize"])
def test_a_text_in_a_column_of_json_keeps_its_quotes(spark, way):
    quoted = {value: value for value in STRINGS} | {'"null"': '"null"', '"\\/é"': '"/é"'}
    expected = {**TEXTS, **quoted, '{"a": "v"}': '{"a":"v"}', '{"v": "v"}': '{"v":"v"}'}
    found = read(spark, way, "jsonb", list(expected))
    assert dict(zip(expected, found, strict=True)) == expected


def test_a_null_of_json_is_one_in_columns_of_json_alone(spark):
    null, text = '{"__crdb_json_null__": true}', '"{\\"__crdb_json_null__\\":true}"'
    assert read(spark, "wrapped", "jsonb", [null, text]) == ["null", text]
    assert read(spark, "wrapped", "string", [null, text]) == ['{"__crdb_json_null__":true}'] * 2


def test_json_inside_of_lists_keeps_its_digits(spark):
    assert read(spark, "wrapped", "string[]", ['[{"a": 1.10}, "b", null, 1.10]']) == [
        ['{"a":1.10}', "b", None, "1.10"]
    ]
    found = read(spark, "wrapped", "map<string,string>", ['{"a": {"b": 1.10}, "c": "d"}'])
    assert found == [{"a": '{"b":1.10}', "c": "d"}]
