"""SimCatalog: a catalog in memory, with PyIceberg's own requirements and updates, that answers as it likes.

It keeps every version of the table, so that a load can be stale, and requests that it took and did not
apply yet, so that a commit can land long after its client gave up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import MetadataLogEntry
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

from tests.simulation.faults import NOT_APPLIED, CommitFault, Fault, LoadFault, answer
from tests.simulation.reader import last_sequence
from tests.simulation.store import LOCATION, SimFileIO, SimStore

IDENTIFIER = ("sim", "table")
_LOG_MAX = "write.metadata.previous-versions-max"
_STALE_MAX = 6

Draw = Callable[[str, type[Any]], Fault | None]
Watch = Callable[[TableMetadata, TableMetadata], None]


@dataclass(frozen=True, slots=True)
class Version:
    """A table's metadata and where its file is."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, slots=True)
class Request:
    """A commit that was taken and may be applied later."""

    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]
    client: object


@dataclass(slots=True)
class SimCatalog:
    """One table, under one name."""

    store: SimStore
    random: Random
    now_ms: Callable[[], int]
    draw: Draw
    watch: Watch
    """Told of every change that was applied, before anybody is answered."""
    keeps_tags: bool = True
    current: Version | None = None
    versions: list[Version] = field(default_factory=list)
    pending: list[Request] = field(default_factory=list)
    replica: Version | None = None
    """What a stale load shows; otherwise any of the last versions."""
    client: object = None
    """Whose call this is."""
    _numbers: int = 0

    # -- what a sink calls ----------------------------------------------------------------------

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        fault = self.draw("load", LoadFault)
        if fault is LoadFault.STALE:
            return self._table(self.replica or self.random.choice(self.versions[-_STALE_MAX:]))
        if fault is not None:
            raise answer(fault)
        return self._table(self._existing())

    def commit_table(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> CommitTableResponse:
        fault = self.draw("commit", CommitFault)
        if fault is CommitFault.CRASH_BEFORE:
            raise answer(fault)
        if fault is CommitFault.DELAYED:
            self.pending.append(Request(requirements, updates, self.client))
        if fault in NOT_APPLIED:
            raise answer(cast(Fault, fault))
        version = self.apply(requirements, updates)
        if fault is not None:
            raise answer(fault)
        return CommitTableResponse.model_construct(
            metadata=version.metadata, metadata_location=version.location
        )

    # -- what the world does --------------------------------------------------------------------

    def create(self, schema: Schema, spec: PartitionSpec, properties: dict[str, str], uuid: UUID) -> None:
        metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, LOCATION, dict(properties), uuid)
        self._publish(metadata.model_copy(update={"last_updated_ms": self.now_ms()}))

    def drop(self) -> None:
        self.current = None

    def apply(self, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Version:
        """Apply a request, or refuse it as a catalog does."""
        base = self._existing()
        for requirement in requirements:
            requirement.validate(base.metadata)
        metadata = base.metadata
        context = _TableMetadataUpdateContext()
        for update in updates:
            if self._takes(update, base.metadata):
                metadata = _apply_table_update(update, metadata, context)
        metadata.spec().check_compatible(metadata.schema())
        metadata = metadata.model_copy(
            update={
                "last_updated_ms": max(self.now_ms(), base.metadata.last_updated_ms, _newest(base, metadata)),
                "metadata_log": _log(base),
            }
        )
        version = self._publish(metadata)
        self.watch(base.metadata, metadata)
        return version

    def edit(self, changes: dict[str, object]) -> None:
        """A change that PyIceberg has no update for."""
        base = self._existing()
        changes |= {
            "metadata_log": _log(base),
            "last_updated_ms": max(self.now_ms(), base.metadata.last_updated_ms),
        }
        self._publish(base.metadata.model_copy(update=changes))

    def settle_pending(self) -> int:
        """Apply a request that was taken long ago; how many were applied."""
        if not self.pending:
            return 0
        request = self.pending.pop(self.random.randrange(len(self.pending)))
        if not self.would_take(request):
            return 0
        try:
            self.apply(request.requirements, request.updates)
        except ValueError:
            # PyIceberg's own checks: a snapshot id that is there, a sequence number that is too old.
            return 0
        return 1

    def would_take(self, request: Request) -> bool:
        """Whether a request meets its requirements as the table is now."""
        if self.current is None:
            return False
        try:
            for requirement in request.requirements:
                requirement.validate(self.current.metadata)
        except CommitFailedException:
            return False
        return True

    def as_catalog(self) -> Catalog:
        return cast(Catalog, self)

    def _takes(self, update: TableUpdate, base: TableMetadata) -> bool:
        if isinstance(update, AddPartitionSpecUpdate):
            # PyIceberg would add a spec a second time that somebody else added meanwhile; Iceberg's own
            # server does not.
            return update.spec not in base.partition_specs
        is_tag = isinstance(update, SetSnapshotRefUpdate) and update.ref_name != MAIN_BRANCH
        return self.keeps_tags or not is_tag

    def _existing(self) -> Version:
        if self.current is None:
            raise NoSuchTableError(".".join(IDENTIFIER))
        return self.current

    def _publish(self, metadata: TableMetadata) -> Version:
        self._numbers += 1
        location = f"{LOCATION}/metadata/{self._numbers:05d}.metadata.json"
        self.store.put(location, lambda: metadata.model_dump_json(by_alias=True).encode())
        self.current = Version(metadata, location)
        self.versions.append(self.current)
        return self.current

    def _table(self, version: Version) -> Table:
        return Table(IDENTIFIER, version.metadata, version.location, SimFileIO(self.store), self.as_catalog())


def _newest(base: Version, metadata: TableMetadata) -> int:
    if last_sequence(metadata) == last_sequence(base.metadata):
        return 0
    return metadata.snapshots[-1].timestamp_ms


def _log(base: Version) -> list[MetadataLogEntry]:
    kept = int(base.metadata.properties.get(_LOG_MAX, "100"))
    entry = MetadataLogEntry(metadata_file=base.location, timestamp_ms=base.metadata.last_updated_ms)
    return [*base.metadata.metadata_log, entry][-kept:]
