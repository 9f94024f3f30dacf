"""The ledger and its feed: money is neither made nor lost, and no change comes later than was promised."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from calve.cli.feed import DELAY, SCHEMA, Feed, deliver
from calve.cli.ledger import MINUTE, OPENING_BALANCE, Ledger

START = 1_000 * MINUTE


@pytest.mark.parametrize("accounts", [2, 10, 500])
def test_no_frontier_lies_inside_a_transaction(accounts):
    ledger = Ledger(accounts, 6, START)
    assert ledger.before(START) == {}
    for time in sorted({change.at for change in ledger.changes}):
        assert sum(ledger.before(time + 1).values()) == ledger.total == accounts * OPENING_BALANCE


def test_the_ledger_has_inserts_updates_and_deletes_in_every_minute():
    ledger = Ledger(2_000, 8, START)
    assert [change.at for change in ledger.changes] == sorted(change.at for change in ledger.changes)
    for minute in range(8):
        lower = START + minute * MINUTE
        ops = {change.op for change in ledger.changes if lower <= change.at < lower + MINUTE}
        assert ops == {"insert", "update", "delete"}


def test_the_same_arguments_give_the_same_ledger():
    assert Ledger(50, 3, START).changes == Ledger(50, 3, START).changes


def test_an_account_changes_once_at_a_time():
    """Nothing would decide between two."""
    changes = Ledger(20, 8, START).changes
    assert len({(change.at, change.account) for change in changes}) == len(changes)


def test_a_change_that_is_late_still_comes_inside_the_delay(tmp_path):
    """In a later file than others of its time, but before the frontier, which the files before it make."""
    feed, files = delivered(tmp_path / "feed")
    assert feed.late > 100
    assert feed.files == len(files) == 8
    latest, out_of_order = 0, 0
    for times in files:
        assert min(times) >= latest - DELAY
        out_of_order += sum(time < latest for time in times)
        latest = max(latest, *times)
    assert out_of_order > 50
    assert feed.last_frontier == START + 7 * MINUTE


def test_every_change_is_delivered_and_some_twice(tmp_path):
    ledger = Ledger(2_000, 8, START)
    feed = deliver(ledger, tmp_path / "feed")
    seen = [
        (row["at"], row["account"], row["balance"], row["_op"])
        for path in sorted((tmp_path / "feed").iterdir())
        for row in read(path)
    ]
    assert set(seen) == {(change.at, change.account, change.balance, change.op) for change in ledger.changes}
    assert len(seen) == feed.changes == len(ledger.changes) + feed.twice
    assert feed.twice > 50


def test_spark_finds_the_files_in_their_order_by_age(tmp_path):
    delivered(tmp_path / "feed")
    ages = [path.stat().st_mtime for path in sorted((tmp_path / "feed").iterdir())]
    assert all(before < after for before, after in pairwise(ages))


def delivered(folder: Path) -> tuple[Feed, list[list[int]]]:
    feed = deliver(Ledger(2_000, 8, START), folder)
    return feed, [[row["at"] for row in read(path)] for path in sorted(folder.iterdir())]


def read(path: Path) -> list[dict]:
    table = pq.read_table(path)
    assert table.schema == SCHEMA
    at = table.schema.get_field_index("at")
    rows: list[dict] = table.set_column(at, "at", table["at"].cast("int64")).to_pylist()
    return rows
