"""Columns that nobody declared."""

from __future__ import annotations

import json
import logging

from calve.config.columns import SourceColumn, SourceTable
from calve.decode.tables import make_tables
from calve.source.cockroachdb.infer import infer_tables
from calve.source.cockroachdb.plan import ReadPlan
from tests.support.changefeed.feed import Changefeed, Write
from tests.support.changefeed.history import History, Table
from tests.unit.source.cockroachdb.test_reader import FILE, HLC, line, put

PEOPLE = Table(
    "people", (("id", "long"), ("name", "string"), ("ok", "boolean"), ("part", "float")), ("id", "name")
)
ORDERS = Table("my-orders", (("id", "long"), ("note", "string")), ("id",), ("note",))


def test_columns_and_keys_are_guessed_from_the_first_file_of_each_topic_and_said(tmp_path, caplog):
    feed = Changefeed(History.of(3, PEOPLE, ORDERS), seed=3, kind=".ndjson.gz")
    for write in feed.run(3):
        put(tmp_path, write)
    with caplog.at_level(logging.WARNING):
        found = infer_tables(ReadPlan(tmp_path.as_uri()))
    columns = [
        ("id", "long", True),
        ("name", "string", True),
        ("ok", "boolean", False),
        ("part", "double", False),
    ]
    guesses = tuple(SourceColumn(*one) for one in columns)
    assert found["people"] == SourceTable(guesses, ("id", "name"), ("id", "name", "ok", "part"))
    assert found["my-orders"].key == ("id",)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "topic people" in said
    assert "part double" in said


def test_what_is_declared_or_not_wanted_is_not_guessed(tmp_path):
    for write in Changefeed(History.of(3, PEOPLE, ORDERS), seed=3).run(3):
        put(tmp_path, write)
    declared = make_tables({"people": (PEOPLE.columns, PEOPLE.key)})
    assert infer_tables(ReadPlan(tmp_path.as_uri(), declared)).keys() == {"my-orders"}
    assert infer_tables(ReadPlan(tmp_path.as_uri(), (), frozenset({"people"}))).keys() == {"people"}


def test_a_key_that_more_than_one_column_could_be_is_not_guessed(tmp_path):
    put(tmp_path, Write(FILE, (line(1, after={"id": 1, "other": 1}) + "\n").encode()))
    assert infer_tables(ReadPlan(tmp_path.as_uri()))["my-topic"].key == ()


def test_one_key_alone_tells_nothing_and_the_next_file_is_looked_at(tmp_path):
    """What is hidden before a key may have the value of a column by chance."""

    def rows(*numbers: int) -> bytes:
        some = [{"after": {"id": one, "n": 7}, "key": [7, one], "updated": HLC} for one in numbers]
        return "".join(json.dumps(one) + "\n" for one in some).encode()

    put(tmp_path, Write(FILE, rows(1)))
    assert infer_tables(ReadPlan(tmp_path.as_uri()))["my-topic"].key == ()
    put(tmp_path, Write(FILE.replace("-00000000-", "-00000001-"), rows(2).replace(b"[7,", b"[8,")))
    assert infer_tables(ReadPlan(tmp_path.as_uri()))["my-topic"].key == ()
    put(tmp_path, Write(FILE, rows(1).replace(b"[7, ", b"[")))
    put(tmp_path, Write(FILE.replace("-00000000-", "-00000001-"), rows(2).replace(b"[7, ", b"[")))
    assert infer_tables(ReadPlan(tmp_path.as_uri()))["my-topic"].key == ("id",)


def test_a_file_without_rows_tells_nothing(tmp_path):
    put(tmp_path, Write(FILE, (line(1, after=None) + "\nwhat?\n").encode()))
    assert infer_tables(ReadPlan(tmp_path.as_uri())) == {}
