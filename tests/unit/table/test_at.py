"""Which snapshot `at` means, and what is said where there is none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import StringType

from calve.model.errors import ConfigError, SnapshotMissing
from calve.table.at import snapshot_at


@pytest.fixture
def table(tmp_path: Any) -> Table:
    """Two snapshots with a tag and a branch on the first, and a column that came after both."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    made = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": [1]}))
    first = made.current_snapshot()
    assert first is not None
    made.manage_snapshots().create_tag(first.snapshot_id, "eod").commit()
    made.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    made.append(pa.table({"id": [2]}))
    with made.update_schema() as update:
        update.add_column("later", StringType())
    loaded = catalog.load_table("ns.t")
    catalog.close()
    return loaded


def seen(table: Table, at: Any) -> tuple[int, list[str]]:
    """The place of the snapshot among all, and the columns."""
    pinned = snapshot_at(table, at)
    assert pinned.snapshot is not None
    ids = [one.snapshot_id for one in table.metadata.snapshots]
    return ids.index(pinned.snapshot.snapshot_id), list(pinned.schema.column_names)


def test_main_and_branches_have_the_columns_of_now_and_the_past_has_its_own(table: Table):
    first, second = (one.snapshot_id for one in table.metadata.snapshots)
    assert seen(table, None) == seen(table, "main") == seen(table, "branch:main") == (1, ["id", "later"])
    assert seen(table, "audit") == seen(table, "branch:audit") == (0, ["id", "later"])
    assert seen(table, "eod") == seen(table, "tag:eod") == (0, ["id"])
    assert seen(table, first) == seen(table, f"snapshot:{first}") == (0, ["id"])
    assert seen(table, second) == (1, ["id"])


def test_a_name_that_looks_like_a_word_of_ours_is_a_name_first(table: Table):
    (first, _) = table.metadata.snapshots
    table.manage_snapshots().create_tag(first.snapshot_id, "tag:audit").commit()
    assert seen(table.refresh(), "tag:audit") == (0, ["id"])


@pytest.mark.parametrize(
    "at, words",
    [
        ("eodd", r"ns\.t has no tag or branch 'eodd'\n  hint: Did you mean 'eod'\?"),
        ("tag:audit", r"ns\.t has no tag 'audit'\n  hint: There are: eod\."),
        ("branch:eod", r"ns\.t has no branch 'eod'\n  hint: There are: audit, main\."),
        ("12", r"no tag or branch '12'\n  hint: .* A snapshot's id is given as a number, at=12\."),
        (12, r"ns\.t has no snapshot 12\n  hint: The last ones are \d+, \d+; older ones may have expired\."),
        ("snapshot:12", r"ns\.t has no snapshot 12\n"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(table: Table, at: Any, words: str):
    with pytest.raises(SnapshotMissing, match=words):
        snapshot_at(table, at)


@pytest.mark.parametrize(
    "at, words",
    [
        ("snapshot:last", "names no snapshot: an id is a number"),
        (True, "at cannot be True, which is a bool"),
        (1.5, "at cannot be 1.5, which is a float"),
    ],
)
def test_what_is_no_place_in_a_history_is_refused(table: Table, at: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        snapshot_at(table, at)
