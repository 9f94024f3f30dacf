"""WritePlan: all that a worker must know to write the files of a sink. Plain values, no catalog.

The coordinator makes it from the table (`table/plan.py`); it is the same for every worker of a run
until the table changes. A batch's files are only as good as what the plan took for granted: that is
the batch's premises, which the coordinator checks again when it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from calve.model.layout import PartitionField, SortField
from calve.store.access import NO_ACCESS, Access

FILE_BYTES_MAX = 512 * 1024 * 1024
"""No file passes this size, whatever the target is."""


class DeleteScope(Enum):
    """Where an equality delete of this plan reaches."""

    NONE = "none"  # no older row can exist: the table is empty, or the mode has no keys
    PARTITION = "partition"  # the partition follows from the key, and every live file has this spec
    GLOBAL = "global"  # a key may have moved between partitions: written under the unpartitioned spec


class MetricsMode(Enum):
    """How much is kept of a column in the manifest (`write.metadata.metrics.*`)."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ColumnMode:
    """The metrics mode of one leaf column; `length` is for truncate."""

    mode: MetricsMode = MetricsMode.TRUNCATE
    length: int = 16


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How files are written: sizes with their unit, and Parquet's own settings."""

    target_file_bytes: int = 128 * 1024 * 1024
    row_group_rows_max: int = 1024 * 1024
    row_group_bytes: int = 16 * 1024 * 1024  # of Arrow memory, gathered before a row group is written
    page_bytes: int = 1024 * 1024
    dictionary: bool | tuple[str, ...] = True  # where it pays, nowhere, or the columns that get one
    dictionary_bytes_max: int = 1024 * 1024
    compression: str = "zstd"
    compression_level: int | None = 3


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a worker must know."""

    sink_id: str
    data_location: str
    """The folder under which all files of the table go, as a URI without a trailing slash."""
    schema: pa.Schema
    """The table's columns in the table's order, `PARQUET:field_id` on every nested field, `nullable` as
    the table says (False = required)."""
    schema_id: int
    spec_id: int
    partition: tuple[PartitionField, ...] = ()
    """The fields of the spec `spec_id`, over top-level columns of `schema`."""
    partition_names: tuple[str, ...] = ()
    """The names of those fields, for paths only."""
    sort: tuple[SortField, ...] = ()
    sort_order_id: int | None = None
    key: tuple[str, ...] = ()
    """The key columns, top-level; empty where rows have no identity (append)."""
    deletes: DeleteScope = DeleteScope.NONE
    global_spec_id: int | None = None
    """The unpartitioned spec under which global deletes are written."""
    metrics: Mapping[int, ColumnMode] = field(default_factory=dict)
    """By the field id of a leaf; a leaf that is not named has the default `ColumnMode()`."""
    settings: FileSettings = FileSettings()
    access: Access = NO_ACCESS
    """How the store of `data_location` is reached. A plan is sent to workers, and never kept (P10)."""
