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

from tests.support.feeds import Change, Dialect, FeedFlow, Mark

pytestmark = pytest.mark.spark

TABLE = "id long primary key, name string not null, amount decimal(10,2)"


def dialects() -> list[Any]:
    from calve.envelope.cockroachdb import Kind
    from tests.support.dialects.cockroachdb import Cockroach

    return [
        Cockroach(),
        Cockroach(Kind.ENRICHED),
        Cockroach(Kind.ENRICHED, schemas=True),
        Cockroach(Kind.BARE),
    ]


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


@pytest.mark.parametrize("dialect", dialects(), ids=lambda one: one.name)
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
    assert sum(one.rows_replayed for one in seen) == 3
    assert not any("__calve" in name for name in it.table().schema().column_names)
