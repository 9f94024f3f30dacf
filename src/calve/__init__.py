"""calve: streams of changes into Apache Iceberg tables, exactly once, one consistent snapshot at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calve.model.errors import (
    AccessDenied,
    BadColumns,
    BadKey,
    BadName,
    BadPartition,
    BadRow,
    BadTime,
    BrokerError,
    CalveError,
    CatalogError,
    CatalogWithoutTags,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    Diverged,
    Fenced,
    FileMissing,
    ForeignRows,
    Gap,
    PremiseBroken,
    RegistryError,
    RolledBack,
    SchemaMismatch,
    SinkState,
    SnapshotMissing,
    StoreError,
    TableDiffers,
    TableError,
    TableMissing,
    TableReplaced,
    Tied,
    UnknownOption,
    Unreadable,
)

if TYPE_CHECKING:
    from calve.config.catalog import CatalogConfig
    from calve.config.columns import SourceColumn, SourceTable
    from calve.config.sink import Delivery, Mode, SinkConfig
    from calve.config.stream import StreamConfig
    from calve.runtime.diagnosis import Check, Diagnosis, Outcome
    from calve.runtime.doctor import doctor
    from calve.runtime.drop import Dropped, drop_sink
    from calve.runtime.inspect.door import as_of, history, status
    from calve.runtime.inspect.result import SinkStatus, TableAsOf, TableHistory, TableStatus
    from calve.runtime.replay.door import list_quarantine, replay_quarantine
    from calve.runtime.replay.result import Quarantined, Replayed
    from calve.runtime.result import EpochResult, WriteResult
    from calve.runtime.sink import IcebergSink
    from calve.runtime.spark.door import write, write_stream
    from calve.runtime.spark.progress import SinkListener, SinkProgress, TerminalLine, progress
    from calve.runtime.spark.read import read
    from calve.table.history import SnapshotEntry

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "BadColumns",
    "BadKey",
    "BadName",
    "BadPartition",
    "BadRow",
    "BadTime",
    "BrokerError",
    "CalveError",
    "CatalogConfig",
    "CatalogError",
    "CatalogWithoutTags",
    "Check",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "Delivery",
    "Diagnosis",
    "Diverged",
    "Dropped",
    "EpochResult",
    "Fenced",
    "FileMissing",
    "ForeignRows",
    "Gap",
    "IcebergSink",
    "Mode",
    "Outcome",
    "PremiseBroken",
    "Quarantined",
    "RegistryError",
    "Replayed",
    "RolledBack",
    "SchemaMismatch",
    "SinkConfig",
    "SinkListener",
    "SinkProgress",
    "SinkState",
    "SinkStatus",
    "SnapshotEntry",
    "SnapshotMissing",
    "SourceColumn",
    "SourceTable",
    "StoreError",
    "StreamConfig",
    "TableAsOf",
    "TableDiffers",
    "TableError",
    "TableHistory",
    "TableMissing",
    "TableReplaced",
    "TableStatus",
    "TerminalLine",
    "Tied",
    "UnknownOption",
    "Unreadable",
    "WriteResult",
    "as_of",
    "doctor",
    "drop_sink",
    "history",
    "list_quarantine",
    "progress",
    "read",
    "replay_quarantine",
    "status",
    "write",
    "write_stream",
]

# Workers import rooms of this package and must not pay for PyIceberg, and not everybody has Spark: what needs
# either comes when asked for.
_LAZY = {
    "CatalogConfig": "calve.config.catalog",
    "Check": "calve.runtime.diagnosis",
    "Delivery": "calve.config.sink",
    "Diagnosis": "calve.runtime.diagnosis",
    "Dropped": "calve.runtime.drop",
    "EpochResult": "calve.runtime.result",
    "IcebergSink": "calve.runtime.sink",
    "Mode": "calve.config.sink",
    "Outcome": "calve.runtime.diagnosis",
    "Quarantined": "calve.runtime.replay.result",
    "Replayed": "calve.runtime.replay.result",
    "SinkConfig": "calve.config.sink",
    "SinkListener": "calve.runtime.spark.progress",
    "SinkProgress": "calve.runtime.spark.progress",
    "SinkStatus": "calve.runtime.inspect.result",
    "SnapshotEntry": "calve.table.history",
    "SourceColumn": "calve.config.columns",
    "SourceTable": "calve.config.columns",
    "StreamConfig": "calve.config.stream",
    "TableAsOf": "calve.runtime.inspect.result",
    "TableHistory": "calve.runtime.inspect.result",
    "TableStatus": "calve.runtime.inspect.result",
    "TerminalLine": "calve.runtime.spark.progress",
    "WriteResult": "calve.runtime.result",
    "as_of": "calve.runtime.inspect.door",
    "doctor": "calve.runtime.doctor",
    "drop_sink": "calve.runtime.drop",
    "history": "calve.runtime.inspect.door",
    "list_quarantine": "calve.runtime.replay.door",
    "progress": "calve.runtime.spark.progress",
    "read": "calve.runtime.spark.read",
    "read_stream": "calve.runtime.spark.reader",
    "replay_quarantine": "calve.runtime.replay.door",
    "status": "calve.runtime.inspect.door",
    "write": "calve.runtime.spark.door",
    "write_stream": "calve.runtime.spark.door",
}


def __getattr__(name: str) -> Any:
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(room), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
    raise ConfigError(
        f"calve.{name} needs PySpark, which is not installed",
        hint="pip install 'calve[spark]'. Spark itself needs Java 17 or newer.",
    )
