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
    StoreError,
    TableDiffers,
    TableError,
    TableMissing,
    TableReplaced,
    Tied,
    UnknownOption,
)

if TYPE_CHECKING:
    from calve.config.catalog import CatalogConfig
    from calve.config.columns import SourceColumn, SourceTable
    from calve.config.sink import Delivery, Mode, SinkConfig
    from calve.config.stream import StreamConfig
    from calve.runtime.doctor import Check, Diagnosis, Outcome, doctor
    from calve.runtime.replay.door import list_quarantine, replay_quarantine
    from calve.runtime.replay.result import Quarantined, Replayed
    from calve.runtime.result import EpochResult, WriteResult
    from calve.runtime.sink import IcebergSink
    from calve.runtime.spark.door import write, write_stream
    from calve.runtime.spark.progress import SinkListener, SinkProgress, TerminalLine, progress

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "BadColumns",
    "BadKey",
    "BadName",
    "BadPartition",
    "BadRow",
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
    "SourceColumn",
    "SourceTable",
    "StoreError",
    "StreamConfig",
    "TableDiffers",
    "TableError",
    "TableMissing",
    "TableReplaced",
    "TerminalLine",
    "Tied",
    "UnknownOption",
    "WriteResult",
    "doctor",
    "list_quarantine",
    "progress",
    "replay_quarantine",
    "write",
    "write_stream",
]

# Workers import rooms of this package and must not pay for PyIceberg, and not everybody has Spark: what needs
# either comes when asked for.
_LAZY = {
    "CatalogConfig": "calve.config.catalog",
    "Check": "calve.runtime.doctor",
    "Delivery": "calve.config.sink",
    "Diagnosis": "calve.runtime.doctor",
    "EpochResult": "calve.runtime.result",
    "IcebergSink": "calve.runtime.sink",
    "Mode": "calve.config.sink",
    "Outcome": "calve.runtime.doctor",
    "Quarantined": "calve.runtime.replay.result",
    "Replayed": "calve.runtime.replay.result",
    "SinkConfig": "calve.config.sink",
    "SinkListener": "calve.runtime.spark.progress",
    "SinkProgress": "calve.runtime.spark.progress",
    "SourceColumn": "calve.config.columns",
    "SourceTable": "calve.config.columns",
    "StreamConfig": "calve.config.stream",
    "TerminalLine": "calve.runtime.spark.progress",
    "WriteResult": "calve.runtime.result",
    "doctor": "calve.runtime.doctor",
    "list_quarantine": "calve.runtime.replay.door",
    "progress": "calve.runtime.spark.progress",
    "read_stream": "calve.runtime.spark.reader",
    "replay_quarantine": "calve.runtime.replay.door",
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
