"""The generator keeps the rules that it states: a reader who trusts resolved timestamps has the truth."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calve.source.cockroachdb.names import DataFile, ResolvedFile, parse_name, parse_ts
from tests.support.changefeed.feed import LAYOUTS, Changefeed, Emission, Nemesis, Resolved
from tests.support.changefeed.history import History, Table
from tests.support.changefeed.messages import ENVELOPES, messages

TABLES = (
    Table("my-orders", (("id", "long"), ("note", "string")), ("id",), ("note",)),
    Table("people", (("id", "long"), ("note", "string")), ("id", "note")),
)


def feed_of(seed: int, layout: str = "daily", nemesis: Nemesis | None = None) -> Changefeed:
    history = History.of(seed, *TABLES)
    history.run(8)
    return Changefeed(history, seed=seed, layout=layout, nemesis=nemesis or Nemesis(25, 30, 25), mvcc=True)


@given(st.integers(0, 2**32), st.sampled_from(LAYOUTS))
@settings(max_examples=60)
def test_what_sorts_before_a_resolved_file_holds_the_table_as_of_it(seed, layout):
    feed = feed_of(seed, layout)
    writes = {write.path: write.content for write in feed.run(5, 6)}
    feed.history.add_column("people", "extra", "int", 7)
    writes |= {write.path: write.content for write in feed.run(3, 6)}
    names = {path: parse_name(path) for path in sorted(writes)}
    marks = [file.time for file in names.values() if isinstance(file, ResolvedFile)]
    assert marks == feed.resolved
    assume(feed.resolved)  # one that restarts in every round says nothing
    for table in TABLES:
        latest: dict[str, tuple[str, dict | None]] = {}
        for path, file in names.items():
            if isinstance(file, DataFile) and file.topic == table.topic:
                for row in map(json.loads, writes[path].splitlines()):
                    key, updated = json.dumps(row["key"]), row["updated"]
                    assert parse_ts(path.rpartition("/")[2].partition("-")[0], path) <= _time(updated)
                    assert _time(row["mvcc_timestamp"]) <= _time(updated)
                    if _time(updated) <= feed.resolved[-1] and updated >= latest.get(key, ("", None))[0]:
                        latest[key] = (updated, row["after"])
        found = sorted(json.dumps(row) for _, row in latest.values() if row is not None)
        truth = feed.state(table.topic, feed.resolved[-1]).values()
        assert found == sorted(json.dumps(dict(sorted(row.items()))) for row in truth)


def test_a_resolved_file_is_written_after_all_that_sorts_before_it_but_for_late_files():
    feed = feed_of(5, nemesis=Nemesis(30, 30, 0))
    paths = [write.path for write in feed.run(20)]
    for at, path in enumerate(paths):
        if path.endswith(".RESOLVED"):
            assert [one for one in paths[at:] if one < path] == []


def test_the_nemesis_does_what_it_is_there_for():
    feed = feed_of(6, nemesis=Nemesis(30, 30, 40))
    paths = [write.path for write in feed.run(30)]
    sessions = {path.split("-")[3] for path in paths if not path.endswith(".RESOLVED")}
    emissions = [
        (one.change.topic, one.change.key, one.updated) for one in feed.sent if isinstance(one, Emission)
    ]
    marks = [at for at, path in enumerate(paths) if path.endswith(".RESOLVED")]
    assert len(sessions) > 3
    assert len(emissions) > len(set(emissions)) + 20
    assert any(paths[at + 1] < paths[at] for at in marks[:-1])
    assert any(one.change.version.row is None for one in feed.sent if isinstance(one, Emission))


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_messages_say_the_same_and_resolve_every_partition(envelope):
    feed = feed_of(7)
    list(feed.run(6))
    found = list(messages(feed, envelope, partitions=3))
    resolved = [json.loads(one.value) for one in found if one.key is None]
    rows = [one for one in found if one.key is not None]
    assert len(resolved) == len(feed.resolved) * 3 * len(TABLES)
    assert len(rows) == sum(isinstance(one, Emission) for one in feed.sent)
    places: dict[tuple[str, bytes | None], set[int]] = {}
    for one in rows:
        json.loads(one.value)
        places.setdefault((one.topic, one.key), set()).add(one.partition)
    assert {len(where) for where in places.values()} == {1}
    assert any(isinstance(one, Resolved) for one in feed.sent)


def _time(text: str) -> int:
    return int(text.replace(".", ""))
