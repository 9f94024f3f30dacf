"""Every envelope through the same scenarios; each snapshot is compared with the source as of its frontier.

inserts, updates, deletes · key changes · duplicates · out of order · late · idle · catch-up · bad rows
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.feeds import Change, Dialect, FeedFlow, Mark, Raw
from tests.support.truth import snapshots_of_main

pytestmark = pytest.mark.spark

TABLE = "id long primary key, name string not null, amount decimal(10,2)"


def dialects() -> list[Any]:
    from calve.envelope import materialize
    from calve.envelope.cockroachdb import Kind
    from tests.support.dialects.cockroachdb import Cockroach
    from tests.support.dialects.debezium import Postgres
    from tests.support.dialects.materialize import Subscribed

    return [
        Cockroach(),
        Cockroach(Kind.ENRICHED),
        Cockroach(Kind.ENRICHED, schemas=True),
        Cockroach(Kind.BARE),
        Subscribed(),
        Postgres(),
        Subscribed(materialize.Kind.UPSERT),
        Subscribed(materialize.Kind.DEBEZIUM),
    ]


def by_day_and_night(*names: str) -> list[Any]:
    """These every day, the others at night: what their decoders make of a message is in tests/unit/envelope,
    and what becomes of it then is the same for all."""
    found = dialects()
    assert {one.name for one in found}.issuperset(names)
    return [one if one.name in names else pytest.param(one, marks=pytest.mark.nightly) for one in found]


def put(time: int, id: int, name: str, amount: str | None = None, **where: Any) -> Change:
    value = None if amount is None else Decimal(amount)
    return Change(time, {"id": id}, {"id": id, "name": name, "amount": value}, **where)


def gone(time: int, id: int, **where: Any) -> Change:
    return Change(time, {"id": id}, None, **where)


@pytest.fixture
def flow(spark, lake, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., FeedFlow]:
    def make(dialect: Dialect, **settings: Any) -> FeedFlow:
        prefix = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")[-60:].strip("_")
        tables = settings.pop("tables", {"orders": TABLE})
        return FeedFlow(spark, lake, tmp_path, dialect, tables, prefix, **settings)

    return make


@pytest.mark.parametrize(
    "dialect",
    by_day_and_night("cockroachdb-wrapped", "debezium", "materialize-diff"),
    ids=lambda one: one.name,
)
def test_every_snapshot_is_the_source_as_of_its_frontier(dialect, flow, duckdb) -> None:
    it = flow(dialect)
    # Inserts; one is beyond the mark and waits.
    it.put(put(10, 1, "a", "1.50"), put(11, 2, "b"), put(25, 3, "late"), Mark(20))
    # An update, a delete of it later, out of order; a delete of a row that was never there.
    it.put(gone(27, 1), put(26, 1, "a2", "400"), gone(24, 99), Mark(28))
    # Idle: nothing but marks.
    it.put(Mark(30))
    it.put(Mark(32))
    # Duplicates of all that was, in another order; a key change is a delete and an insert.
    it.put(
        put(25, 3, "late"), put(11, 2, "b"), put(10, 1, "a", "1.50"), gone(36, 2), put(36, 4, "b"), Mark(40)
    )
    it.run()
    first = it.check(duckdb)
    assert len(first) == 3, "one snapshot a resolved time that has changes"
    # After a stop: one batch catches up with all that was resolved meanwhile.
    it.put(put(41, 5, "e"), Mark(42))
    it.put(put(43, 5, "e2"), put(44, 6, "f"), Mark(43), Mark(45))
    it.run()
    summaries = it.check(duckdb)
    assert len(summaries) > len(first)
    uppers = [int(summary["calve.frontier"]) for summary in summaries]
    assert uppers == sorted(set(uppers))
    lowers = [int(summary["calve.lower"]) for summary in summaries]
    assert lowers[1:] == uppers[:-1], "batches tile (P2)"
    seen = it.log.seen
    # Where positions tell what came before, so is the delete that is older than what its partition had sent.
    assert sum(one.rows_replayed for one in seen) == (3 if dialect.timed else 4)
    assert not any("__calve" in name for name in it.table().schema().column_names)


@pytest.mark.parametrize(
    # Debezium's, beside transactions, in test_messages.py.
    "dialect",
    by_day_and_night("cockroachdb-enriched-schemas"),
    ids=lambda one: one.name,
)
def test_a_message_that_cannot_be_read_stops_the_feed_with_its_place_or_waits_in_the_quarantine(
    dialect, flow, duckdb
) -> None:
    it = flow(dialect)
    it.put(put(10, 1, "a"), Raw('{"after": {"id": 2, "na'), Mark(20))
    said = it.refused()
    assert "offset 2" in said, "the place"
    assert "no JSON" in said, "the reason"
    assert '{"after": {"id": 2, "na' in said, "the message"
    assert not snapshots_of_main(it.table()), "nothing of the micro-batch is committed"
    it.write = lambda writer: writer.on_bad_row("quarantine")
    it.run()
    assert it.check(duckdb)
    (waits,) = it.quarantined()
    assert "offset 2" in waits["reason"]
    assert '{\\"after\\": {\\"id\\": 2, \\"na' in waits["row"]


def test_of_each_kind_of_bad_message_the_reason_is_told(flow) -> None:
    from tests.support.dialects.cockroachdb import Cockroach, hlc

    updated = f'"updated": "{hlc(10)}"'
    bad = {
        '{"after": {"id": 1, "name": "a"}}': "there is no `updated`",
        '{"after": {"id": 1, "name": "a"}, "updated": "yesterday"}': "the time is no HLC",
        '{"resolved": "17"}': "the resolved time is no HLC",
        '{"resolved": "-17.0000000000"}': "the resolved time is no HLC",
        f'{{"after": {{"id": "x", "name": "a"}}, {updated}}}': "'id' is \"x\", and the column is int64",
        f'{{"after": {{"id": 1, "name": "a", "amount": "dear"}}, {updated}}}': "'amount' is \"dear\"",
        f'{{"after": {{"id": 1, "name": "a", "amount": 1.005}}, {updated}}}': "'amount' is no decimal(10,2)",
        f'{{"after": null, {updated}}}': "a delete without its key",
        f'{{"after": null, "key": ["x"], {updated}}}': "a delete without its key",
        f'{{"after": null, "key": [3, 1], {updated}}}': "the key has more values, or fewer",
        f'{{"after": {{"name": "a"}}, "key": [1], {updated}}}': "the key is null: 'id'",
        "[1, 2]": "no JSON object",
        "": "no JSON object",
    }
    it = flow(Cockroach(), write=lambda writer: writer.on_bad_row("quarantine"))
    it.put(*(Raw(text) for text in bad), put(9, 9, "good"), Mark(20))
    it.run()
    found = it.quarantined()
    assert len(found) == len(bad)
    for text, reason in bad.items():
        assert any(reason in row["reason"] for row in found), (text, reason)
    assert [row["name"] for row in it.truth("orders", 2**120)] == ["good"]


def test_the_mark_of_a_partition_that_is_behind_holds_the_frontier_and_one_that_goes_back_says_nothing(
    flow, duckdb
) -> None:
    from tests.support.dialects.cockroachdb import Cockroach, upper

    it = flow(Cockroach(), partitions=2)
    it.put(put(10, 1, "a"), put(12, 2, "b", partition=1), Mark(20))
    it.put(Mark(15, partition=1), Mark(12))
    it.put(put(16, 3, "c"), Mark(18, partition=1), Mark(14, partition=1))
    it.run()
    summaries = it.check(duckdb)
    # The second partition was the last to speak: its marks end the batches.
    assert [int(one["calve.frontier"]) for one in summaries] == [upper(14), upper(17)]
