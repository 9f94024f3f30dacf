"""calve: streams of changes into Apache Iceberg tables, exactly once, one consistent snapshot at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calve.model.errors import (
    AccessDenied,
    BadKey,
    BadName,
    BadPartition,
    BadRow,
    CalveError,
    CatalogError,
    CatalogWithoutTags,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    Diverged,
    Fenced,
    ForeignRows,
    Gap,
    PremiseBroken,
    RolledBack,
    SchemaMismatch,
    SinkState,
    StoreError,
    TableDiffers,
    TableError,
    TableMissing,
    TableReplaced,
    UnknownOption,
)

if TYPE_CHECKING:
    from calve.config.catalog import CatalogConfig
    from calve.config.sink import Delivery, Mode, SinkConfig
    from calve.runtime.result import EpochResult, WriteResult
    from calve.runtime.sink import IcebergSink

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "BadKey",
    "BadName",
    "BadPartition",
    "BadRow",
    "CalveError",
    "CatalogConfig",
    "CatalogError",
    "CatalogWithoutTags",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "Delivery",
    "Diverged",
    "EpochResult",
    "Fenced",
    "ForeignRows",
    "Gap",
    "IcebergSink",
    "Mode",
    "PremiseBroken",
    "RolledBack",
    "SchemaMismatch",
    "SinkConfig",
    "SinkState",
    "StoreError",
    "TableDiffers",
    "TableError",
    "TableMissing",
    "TableReplaced",
    "UnknownOption",
    "WriteResult",
]

# Workers import rooms of this package and must not pay for PyIceberg: what needs it comes when asked for.
_LAZY = {
    "CatalogConfig": "calve.config.catalog",
    "Delivery": "calve.config.sink",
    "EpochResult": "calve.runtime.result",
    "IcebergSink": "calve.runtime.sink",
    "Mode": "calve.config.sink",
    "SinkConfig": "calve.config.sink",
    "WriteResult": "calve.runtime.result",
}


def __getattr__(name: str) -> Any:
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(room), name)
