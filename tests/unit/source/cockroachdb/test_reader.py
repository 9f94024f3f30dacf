"""Files to rows: every row, once, with its values; what is wrong says where it stands."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from calve.decode.tables import make_tables
from calve.model.errors import BadKey, BadMessage, BadRow, ConfigError, FileMissing, StoreError
from calve.source.cockroachdb import blocks
from calve.source.cockroachdb import lines as room
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.cockroachdb.reader import read_file
from tests.support.changefeed.feed import Changefeed, Emission, Nemesis, Write
from tests.support.changefeed.history import History, Table

TS = "202611161200000000000010000000000"
FILE = f"2026-11-16/{TS}-3f0c-1-1-00000000-my-topic-1.ndjson"
HLC = "1794830400000000001.0000000002"
AT = 17948304000000000010000000002

WIDE = Table(
    "my-topic",
    (
        ("id", "long"), ("name", "string"), ("small", "int"), ("price", "decimal(10,2)"),
        ("big", "decimal(38,10)"), ("ratio", "double"), ("part", "float"), ("ok", "boolean"), ("day", "date"),
        ("hour", "time"), ("moment", "timestamp"), ("instant", "timestamptz"), ("uid", "uuid"),
        ("data", "binary"), ("tags", "list<string>"), ("counts", "list<long>"), ("uids", "list<uuid>"),
    ),
    key=("name", "id"),
    nullable=("small", "price", "ratio", "day", "hour", "moment", "instant", "uid", "data", "tags"),
)  # fmt: skip
NARROW = {"my-topic": ([("id", "long"), ("note", "string"), ("ratio", "double")], ["id"])}


def plan(folder: Path, declared: Any = NARROW, **more: Any) -> ReadPlan:
    return ReadPlan(folder.as_uri(), make_tables(declared), **more)


def put(folder: Path, *writes: Write) -> None:
    for write in writes:
        (folder / write.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / write.path).write_bytes(write.content)


def rows_of(path: str, where: ReadPlan) -> list[dict[str, Any]]:
    batches = list(read_file(path, where))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == where.schema
    return [row for batch in batches for row in batch.to_pylist()]


def read_lines(
    folder: Path, lines: Sequence[str | bytes], end: bytes = b"\n", **more: Any
) -> list[dict[str, Any]]:
    text = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + end
    put(folder, Write(FILE, text))
    return rows_of(FILE, plan(folder, **more))


def line(number: int, updated: Any = HLC, **fields: Any) -> str:
    row = {
        "after": {"id": number, "note": f"n{number}", "ratio": 0.5},
        "key": [number],
        "updated": updated,
        **fields,
    }
    return json.dumps({name: value for name, value in row.items() if value is not ...})


def carried(value: Any, nested: bool = False) -> Any:
    """A value as it goes to Spark."""
    if isinstance(value, UUID):
        return str(value) if nested else value.bytes
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return [carried(one, nested=True) for one in value] if isinstance(value, list) else value


def expected(emission: Emission, table: Table) -> dict[str, Any]:
    version = emission.change.version
    found = version.row if version.row is not None else dict(zip(table.key, emission.change.key, strict=True))
    return {name: carried(found.get(name)) for name, _ in table.columns}


@pytest.mark.parametrize("kind", [".ndjson", ".ndjson.gz", ".parquet"])
@pytest.mark.parametrize("block_bytes", [300, 4 * 1024 * 1024])
def test_every_row_of_a_changefeed_comes_once_with_its_values(tmp_path, kind, block_bytes):
    history = History.of(7, WIDE)
    history.run(10)
    feed = Changefeed(
        history, seed=7, kind=kind, nemesis=Nemesis(20, 30, 10), diff=True, mvcc=True, topic_in_value=True
    )
    writes = list(feed.run(8))
    put(tmp_path, *writes)
    where = plan(tmp_path, {"my-topic": (WIDE.columns, WIDE.key)}, block_bytes=block_bytes)
    rows = [row for write in writes for row in rows_of(write.path, where)]
    found = [(row["at"], row["change"], row["t0"]) for row in rows if row["mark"] is None]
    assert [row["mark"] for row in rows if row["mark"] is not None] == [
        Decimal(one + 1) for one in feed.resolved
    ]
    assert {(row["error"], row["raw"]) for row in rows} == {(None, None)}
    sent = {(one.updated, one.change.key): one for one in feed.sent if isinstance(one, Emission)}
    assert len(found) >= len(sent)
    seen = set()
    for at, change, values in found:
        one = sent[int(at), (values["name"], values["id"])]
        assert change == ("delete" if one.change.version.row is None else "upsert")
        assert values == expected(one, WIDE)
        seen.add((one.updated, one.change.key))
    flushed = {key for key in sent if key[0] <= feed.resolved[-1]}
    assert flushed <= seen


def test_lines_are_counted_from_one_over_all_blocks(tmp_path):
    rows = read_lines(tmp_path, [line(number) for number in range(500)], block_bytes=1000)
    assert [(row["line"], row["t0"]["id"]) for row in rows] == [(number + 1, number) for number in range(500)]
    assert {row["file"] for row in rows} == {FILE}


def test_a_last_line_without_its_end_is_a_row_if_it_is_whole(tmp_path):
    assert [row["error"] for row in read_lines(tmp_path, [line(1), line(2)], end=b"")] == [None, None]


BAD = {
    "half a line": ('{"after": {"id": 1', "no row of a changefeed"),
    "no updated": (line(1, updated=...), "no `updated`"),
    "an HLC that is none": (line(1, updated="yesterday"), "no HLC: yesterday"),
    "an HLC with a short logical part": (line(1, updated="1794830400000000001.5"), "no HLC"),
    "a negative HLC": (line(1, updated="-1794830400000000001.0000000000"), "no HLC"),
    "a time that is a number": (line(1, updated=1794830400000000001), "no row of a changefeed"),
    "another topic": (line(1, topic="others"), "another topic than the file's (my-topic): others"),
    "no after": (line(1, after=...), "no `after`"),
    "an after that is no object": (line(1, after=5), "no row of a changefeed"),
    "two rows in a line": (line(1) + line(2), "more than one value"),
    "not an object": ("[1, 2]", "no row of a changefeed"),
    "not UTF-8": (line(1).encode()[:-1] + b', "x": "\xff"}', "UTF-8"),
    "a bare row": ('{"id": 1, "__crdb__": {"updated": "1.0000000000"}}', "no `updated`"),
    "a field twice": ('{"after": null, "after": null, "updated": "1.0000000000"}', "no row of a changefeed"),
}


@pytest.mark.parametrize("bad, said", BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("at", [0, 77, 99])
@pytest.mark.parametrize("declared", [NARROW, {}], ids=["declared", "not-declared"])
def test_a_bad_line_is_a_row_with_its_place_and_its_text_and_no_other_row_suffers(
    tmp_path, bad, said, at, declared
):
    lines: list[str | bytes] = [line(number) for number in range(100)]
    lines[at] = bad
    rows = read_lines(tmp_path, lines, declared=declared)
    assert [row["line"] for row in rows] == list(range(1, 101))
    (wrong,) = [row for row in rows if row["error"] is not None]
    assert (wrong["line"], wrong["change"], wrong["at"]) == (at + 1, None, None)
    assert said in wrong["error"]
    assert wrong["raw"] == (bad if isinstance(bad, str) else bad.decode("utf-8", "replace"))
    others = [row for row in rows if row is not wrong]
    assert {(row["change"], int(row["at"])) for row in others} == {("upsert", AT)}
    if declared:
        near = [row for row in others if row["t0"] is None]
        assert len(near) < room.LEAF_LINES
        assert all(row["raw"] is not None for row in near)


def test_the_end_of_a_file_in_the_middle_of_a_line_is_said(tmp_path):
    rows = read_lines(tmp_path, [line(1), line(2)[:30]], end=b"")
    assert [row["error"] and row["error"].endswith("the file ends in it") for row in rows] == [None, True]


def test_empty_lines_are_no_rows(tmp_path):
    rows = read_lines(tmp_path, [line(1), "", "  ", line(2)])
    assert [row["line"] for row in rows] == [1, 4]


def test_a_file_of_bad_lines_alone_is_read_to_its_end(tmp_path):
    rows = read_lines(tmp_path, ["what?"] * 50)
    assert [row["line"] for row in rows if row["error"]] == list(range(1, 51))


@pytest.mark.parametrize("cut", [1, 9, 200])
def test_a_gzip_file_that_is_cut_off_is_refused_as_a_whole(tmp_path, cut):
    path = FILE + ".gz"
    content = gzip.compress("".join(line(number) + "\n" for number in range(1000)).encode())
    put(tmp_path, Write(path, content[:-cut]))
    with pytest.raises(StoreError, match="cannot be read to its end") as refused:
        rows_of(path, plan(tmp_path, block_bytes=1000))
    assert path in refused.value.message


@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_file_without_a_row_is_refused(tmp_path, end):
    put(tmp_path, Write(FILE + end, b""))
    with pytest.raises(StoreError, match="it is empty"):
        rows_of(FILE + end, plan(tmp_path))


@pytest.mark.parametrize("path", [FILE, f"2026-11-16/{TS}.RESOLVED"])
def test_a_file_that_is_gone_says_so_and_what_to_do(tmp_path, path):
    with pytest.raises(FileMissing, match=f"cannot read .*{path}") as caught:
        rows_of(path, plan(tmp_path))
    assert caught.value.hint.startswith("It was listed and was deleted since")
    assert "WITH cursor" in caught.value.hint


def test_a_line_that_is_cut_off_is_not_made_whole_by_the_next(tmp_path):
    """Together they are as many values as lines: each to its own all the same."""
    broken = [line(100)[:-1] + ', "z":', line(101) + "}", line(102) + line(103)]
    rows = read_lines(tmp_path, [*broken, *(line(number) for number in range(40))])
    assert [(row["raw"], row["t0"]) for row in rows[:3]] == [(text, None) for text in broken]
    assert all(row["error"].startswith("it is no row of a changefeed") for row in rows[:3])
    assert [(row["t0"]["id"], row["error"]) for row in rows[3:]] == [(number, None) for number in range(40)]


@pytest.mark.parametrize("strange", ["null", " null", "nullnull", "null{}", "1", '"x"', "[1]", "true", "}"])
@pytest.mark.parametrize("good", [0, 1, 40])
def test_a_line_that_is_no_object_is_an_error_of_its_own(tmp_path, strange, good):
    first, *rest = read_lines(tmp_path, [strange, *(line(number) for number in range(good))])
    assert first["raw"] == strange
    assert "no row of a changefeed" in first["error"] or "it has no `updated`" in first["error"]
    assert [(row["t0"]["id"], row["error"]) for row in rest] == [(number, None) for number in range(good)]


def test_blanks_around_a_line_are_none_of_it(tmp_path):
    rows = read_lines(tmp_path, [line(1) + " ", " " + line(2), line(3)])
    assert [(row["t0"]["id"], row["error"]) for row in rows] == [(number, None) for number in (1, 2, 3)]


def test_rows_with_more_fields_than_declared_keep_their_text(tmp_path):
    more = [
        line(number, after={"id": number, "note": None, "ratio": None, "new": [1, "a"]})
        for number in range(30)
    ]
    deletes = [line(number, after=None) for number in range(3)]
    rows = read_lines(tmp_path, [*deletes, *more])
    assert [(row["error"], row["t0"] is None) for row in rows[3:]] == [(None, True)] * 30
    assert [row["raw"] for row in rows[3:]] == more
    assert {row["change"] for row in rows[:3]} == {"delete"}


def test_rows_of_a_topic_that_was_not_declared_keep_their_text(tmp_path):
    text = [line(1), line(2, after=None)]
    rows = read_lines(tmp_path, text, declared={})
    assert [(row["topic"], row["change"], int(row["at"]), row["raw"]) for row in rows] == [
        ("my-topic", "upsert", AT, text[0]),
        ("my-topic", "delete", AT, text[1]),
    ]


def test_files_of_other_topics_are_passed_over(tmp_path):
    put(tmp_path, Write(FILE, b"not looked at"))
    assert rows_of(FILE, plan(tmp_path, topics=frozenset({"another"}))) == []


def test_a_value_that_the_fast_parser_cannot_read_leaves_its_row_to_the_slower_one(tmp_path):
    lines = [line(number) for number in range(2000)]
    lines[700] = line(700, after={"id": 700, "note": {"json": [1]}, "ratio": 1.5})
    rows = read_lines(tmp_path, lines)
    left = [row for row in rows if row["t0"] is None]
    assert 1 <= len(left) <= room.LEAF_LINES
    assert {row["raw"] is not None for row in left} == {True}
    assert [row["t0"]["id"] for row in rows if row["t0"]] == [
        n for n in range(2000) if n + 1 not in {r["line"] for r in left}
    ]


def test_a_column_that_the_fast_parser_never_reads_costs_no_halving_for_long(tmp_path, monkeypatch):
    asked: list[int] = []
    parse = vars(room)["parse"]

    def counted(text: bytes, schema: pa.Schema) -> pa.RecordBatch:
        asked.append(len(text))
        return parse(text, schema)

    monkeypatch.setattr(room, "parse", counted)
    lines = [line(number, after={"id": number, "note": {"json": 1}}) for number in range(20_000)]
    rows = read_lines(tmp_path, lines)
    assert [row["raw"] for row in rows] == lines
    assert sum(asked) < 6 * len("\n".join(lines))


def test_numbers_that_are_none_are_numbers_in_columns_of_floats_alone(tmp_path):
    lines = [
        line(1, after={"id": 1, "note": "NaN", "ratio": "Infinity"}),
        line(2, after={"id": 2, "ratio": "-Infinity"}),
    ]
    rows = read_lines(tmp_path, [*lines, line(3, after={"id": 3, "note": '"ratio": "NaN"', "ratio": 4})])
    assert [(row["t0"]["note"], row["t0"]["ratio"]) for row in rows] == [
        ("NaN", float("inf")),
        (None, float("-inf")),
        ('"ratio": "NaN"', 4.0),
    ]


def test_a_number_that_no_float_holds_is_found_beside_infinite_ones(tmp_path):
    lines = [line(number, after={"id": number, "ratio": "Infinity"}) for number in range(40)]
    lines[7] = line(7, after={"id": 7, "ratio": "R"}).replace('"R"', "1.7976931348623159e308")
    rows = read_lines(tmp_path, lines)
    assert rows[7]["raw"] == lines[7]
    assert {row["t0"]["ratio"] for row in rows if row["t0"]} == {float("inf")}
    assert sum(row["t0"] is None for row in rows) <= room.LEAF_LINES


def test_the_key_of_a_delete_is_no_infinite_number(tmp_path):
    declared = {"my-topic": ([("id", "double")], ["id"])}
    texts = [f'{{"after": null, "key": [{key}], "updated": "{HLC}"}}' for key in ("1.5", "1" * 400)]
    found = [read_lines(tmp_path / str(at), [text], declared=declared)[0] for at, text in enumerate(texts)]
    assert [(row["t0"], row["raw"]) for row in found] == [({"id": 1.5}, None), (None, texts[1])]


MIXED = {"my-topic": ([("a", "string"), ("b", "long"), ("c", "uuid"), ("v", "string")], ["a", "b", "c"])}


@pytest.mark.parametrize(
    "before", [{}, {"before": {"key": [9], "a": '"key": ["x", 1, "y"]'}}], ids=["plain", "diff"]
)
def test_the_key_of_a_delete_is_taken_apart(tmp_path, before):
    uid = "c0ffee00-0000-4000-8000-000000000001"
    names = ["x", 'say "hi", [you]', "back\\", "new\nline", ""]
    lines = [json.dumps({"after": None, **before, "key": [name, -5, uid], "updated": HLC}) for name in names]
    rows = read_lines(tmp_path, lines, declared=MIXED)
    assert [row["t0"] for row in rows] == [
        {"a": name, "b": -5, "c": UUID(uid).bytes, "v": None} for name in names
    ]
    assert {row["raw"] for row in rows} == {None}


def test_what_stands_before_a_key_is_passed_over(tmp_path):
    tables = make_tables({"my-topic": ([("id", "long"), ("v", "string")], ["id"])}, {"my-topic": 2})
    text = json.dumps({"after": None, "key": ["eu-west", 5, 17], "updated": HLC})
    put(tmp_path, Write(FILE, text.encode()))
    (row,) = rows_of(FILE, ReadPlan(tmp_path.as_uri(), tables))
    assert (row["change"], row["t0"], row["raw"]) == ("delete", {"id": 17, "v": None}, None)


@pytest.mark.parametrize("key", [[["x"], 1, "u"], ["x", 1], [], None], ids=str)
def test_a_key_that_is_not_as_declared_leaves_its_row_to_the_slower_parser(tmp_path, key):
    text = json.dumps({"after": None, "key": key, "updated": HLC})
    (row,) = read_lines(tmp_path, [text], declared=MIXED)
    assert (row["change"], row["t0"], row["raw"], row["error"]) == ("delete", None, text, None)


def test_a_table_without_a_declared_key_leaves_deletes_to_the_slower_parser(tmp_path):
    rows = read_lines(
        tmp_path, [line(1), line(2, after=None)], declared={"my-topic": (NARROW["my-topic"][0], [])}
    )
    assert [(row["t0"] is None, row["raw"] is None) for row in rows] == [(False, True), (True, False)]


def test_a_mark_is_behind_the_moment_that_is_resolved(tmp_path):
    path = f"2026-11-16/{TS}.RESOLVED"
    put(tmp_path, Write(path, b'{"resolved":"1794830400000000001.0000000000"}'))
    (row,) = rows_of(path, plan(tmp_path))
    assert (row["topic"], row["file"], row["mark"]) == (None, path, Decimal("17948304000000000010000000001"))


@pytest.mark.parametrize(
    "content", [b"", b'{"resolved":"1794830400000000', b'{"resolved":"1.0000000000"}', b"[]"]
)
def test_a_resolved_file_that_does_not_say_what_its_name_does_is_refused(tmp_path, content):
    path = f"2026-11-16/{TS}.RESOLVED"
    put(tmp_path, Write(path, content))
    with pytest.raises(BadMessage, match="and its name 1794830400000000001"):
        rows_of(path, plan(tmp_path))


def test_a_line_without_an_end_is_not_held_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LINE_BYTES_MAX", 1000)
    with pytest.raises(BadRow, match="line 2 is longer"):
        read_lines(tmp_path, [line(1), "x" * 5000], block_bytes=500)


def test_what_cannot_be_declared_is_refused():
    with pytest.raises(BadKey, match="names 'nope'"):
        make_tables({"t": ([("id", "long")], ["nope"])})
    for kind in ("text", "list<int", "decimal", "int>", "struct<a>"):
        with pytest.raises(ConfigError):
            make_tables({"t": ([("id", kind)], [])})


def test_types_with_maps_come_as_text(tmp_path):
    declared = {"my-topic": ([("id", "long"), ("m", "map<string, struct<a: int, b: list<date>>>")], ["id"])}
    (row,) = read_lines(tmp_path, [line(1)], declared=declared)
    assert (row["t0"], row["raw"]) == (None, line(1))
    assert plan(tmp_path, declared).schema.field("t0").type.field("m").type == pa.map_(
        pa.string(), pa.struct([("a", pa.int32()), ("b", pa.list_(pa.date32()))])
    )


def test_what_arrow_would_change_is_left_to_the_slower_parser(tmp_path):
    columns = [
        ("id", "long"), ("d", "decimal(10,2)"), ("full", "decimal(38,9)"), ("many", "list<decimal(10,2)>"),
        ("day", "date"), ("at", "timestamp"), ("zoned", "timestamptz"), ("moments", "list<timestamp>"),
        ("data", "binary"), ("note", "string"), ("real", "double"), ("part", "float"),
        ("reals", "list<double>"),
    ]  # fmt: skip
    exact = {
        "d": ["1.5", "12345678.90", "4E+2", "1.5000", "null"],
        "full": ["12345678901234567890123456789.123456789", "1.5E-7"],
        "many": ["[1.5, null]", "[]"],
        "day": ['"0001-01-01"', '"9999-12-31"'],
        "at": ['"9999-12-31T23:59:59.999999"'],
        "zoned": ['"0001-01-01T00:00:00Z"'],
        "data": [r'"\\x6869"'],
        "note": ['"5"', '"1.10"'],
        "real": ["1e300", '"Infinity"', '"-Infinity"', '"NaN"', "1" * 300],
        "part": ["3.4e38", '"Infinity"'],
        "reals": ["[1.5, null]"],
    }
    refused = {
        "d": ["1.005", "1.00000001", "99999999.999", "123456789", "1e-40", "1.5e-300", "1e400", '"NaN"'],
        "full": ["0.1234567891", "123456789012345678901234567890.5", "5178.7059778438358e+34"],
        "many": ["[1.005]", "[123456789]"],
        "day": ['"0044-03-15 BC"', '"0000-01-01"', '"10000-01-01"', '"infinity"', '"2026"'],
        "at": ['"0000-12-31T00:00:00"', '"10000-01-01T00:00:00"', '"infinity"', '"2026"', '"2026-11"'],
        "zoned": ['"0000-12-31T00:00:00Z"', '"0044-03-15T00:00:00Z BC"', '"12:34"', '"T12:34"'],
        "moments": ['["0000-12-31T00:00:00"]', '["2026"]'],
        "data": [r'"\\x123"', '"hello"'],
        "note": ["5", "1.10", '{"a": 1e400}'],
        "real": ["1e400", "-1e999", "1.7976931348623159e308", "1" * 400, f"{'1' * 99}e220"],
        "part": ["3.5e38", "1e400", "1" * 40, f"{'1' * 12}E+28"],
        "reals": ["[1.5, 1.7976931348623159e308]"],
    }

    def texts(some: dict[str, list[str]]) -> list[str]:
        rows = [f'{{"id": 1, "{name}": {value}}}' for name, values in some.items() for value in values]
        return [f'{{"after": {row}, "key": [1], "updated": "{HLC}"}}' for row in rows]

    declared = {"my-topic": (columns, ["id"])}
    for number, text in enumerate(texts(exact)):
        (row,) = read_lines(tmp_path / f"exact{number}", [text], declared=declared)
        assert (row["error"], row["raw"], row["t0"]["id"]) == (None, None, 1), text
    for number, text in enumerate(texts(refused)):
        (row,) = read_lines(tmp_path / f"refused{number}", [text], declared=declared)
        assert (row["error"], row["raw"], row["change"], row["t0"]) == (None, text, "upsert", None), text


def test_a_text_in_a_column_of_json_has_quotes_and_other_json_is_left_to_the_slower_parser(tmp_path):
    declared = {"my-topic": ([("id", "long"), ("j", "json")], ["id"])}
    texts = {'"5"': '"5"', '""': '""', '"a\\"\\\\\\n"': '"a\\"\\\\\\n"', "null": None}
    lines = [f'{{"after": {{"id": 1, "j": {one}}}, "key": [1], "updated": "{HLC}"}}' for one in texts]
    rows = read_lines(tmp_path, lines, declared=declared)
    assert [row["t0"]["j"] for row in rows] == list(texts.values())
    lines = [line.replace('"j": ', '"j": 5, "x": ') for line in lines[:1]]
    (row,) = read_lines(tmp_path, lines, declared=declared)
    assert (row["t0"], row["raw"]) == (None, lines[0])
