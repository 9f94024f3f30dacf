"""A catalog that takes tags and does not keep them, over one that does: as some servers are (case 64)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)


class Tagless:
    """Knows main alone: what is said of another ref it forgets, and what is asked of one it cannot tell."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.refs_named: set[str] = set()
        """All that anybody said or asked something of."""

    def commit_table(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> CommitTableResponse:
        asked = {one.ref for one in requirements if isinstance(one, AssertRefSnapshotId)}
        moved = {one.ref_name for one in updates if isinstance(one, SetSnapshotRefUpdate)}
        self.refs_named |= asked | moved
        kept = [
            update
            for update in updates
            if not isinstance(update, SetSnapshotRefUpdate) or update.ref_name == MAIN_BRANCH
        ]
        return self._catalog.commit_table(table, tuple(requirements), tuple(kept))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def tagless(catalog: Catalog) -> Catalog:
    """The same catalog, without tags."""
    return cast(Catalog, Tagless(catalog))
