"""Everything that can go wrong, as a tree; each error says what is known and what to do next.

CalveError
├── ConfigError            what was asked for cannot be done; nothing was changed
│   ├── UnknownOption      … with the nearest right one
│   ├── BadName            a namespace, table or sink name that is refused
│   ├── BadPartition       a partition transform or sort order that does not fit
│   ├── BadStatement       SQL that cannot be read, with its place
│   ├── BadColumns         columns of a source that cannot be read: a type, a list, a CREATE TABLE
│   └── BadKey             a key that cannot identify rows
├── BadTime, BadBatch, BadMessage      a value that is not one
├── SchemaMismatch         the data and the table do not fit together
├── BadRow                 a row that does not fit (P8), with its place
│   └── Tied               changes of one key that differ, and nothing says which is the last
├── SinkState              a call out of its order: not open, no epoch, the wrong epoch
├── Gap                    the table ends before the batch begins: changes would be lost
├── Overcompacted          the source no longer has what follows the table's frontier
├── TableError
│   ├── TableMissing       dropped, or never there
│   ├── TableReplaced      another table stands under the name (new uuid)
│   ├── TableDiffers       an existing table does not fit the configuration
│   ├── RolledBack         main does not descend from what this sink committed
│   ├── Diverged           progress contradicts the source
│   ├── ForeignRows        somebody else wrote rows and the sink was told to halt
│   └── CatalogWithoutTags the catalog took a claim and kept no tag
├── Fenced                 another run has claimed the sink; this one changed nothing
├── PremiseBroken          what a batch took for granted changed: write the batch again
├── CatalogError           the catalog refused or is out of reach; nothing was committed
│   └── AccessDenied       … for want of a right
├── BrokerError            the broker is out of reach, or has no such topic; nothing was written
├── RegistryError          the schema registry refused or is out of reach; nothing was written
├── CommitConflict         certainly not committed, after all attempts
├── CommitUnknown          may have been committed: commit the same epoch again to find out
└── StoreError             a file could not be written or read
    └── FileMissing        … because it is gone
"""

from __future__ import annotations


class CalveError(Exception):
    """An error with what is known and a hint of what to do next."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments do not survive pickling by themselves, and workers'
        # errors cross processes.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[CalveError], message: str, hint: str) -> CalveError:
    return kind(message, hint=hint)


class ConfigError(CalveError):
    """What was asked for cannot be done. Nothing was changed."""


class UnknownOption(ConfigError):
    """An option that does not exist."""


class BadName(ConfigError):
    """A name of a namespace, table, column or sink that is refused."""


class BadPartition(ConfigError):
    """A partition transform or sort order that cannot be parsed or does not fit its column."""


class BadStatement(ConfigError):
    """A statement of SQL that cannot be read."""


class BadColumns(ConfigError):
    """Columns of a source that cannot be read: a type, a column list, a CREATE TABLE."""


class BadKey(ConfigError):
    """A key that cannot identify rows."""


class BadTime(CalveError):
    """A value that is not a time."""


class BadBatch(CalveError):
    """Bounds that are not a batch."""


class BadMessage(CalveError):
    """A message that cannot be read, or whose hash is wrong."""


class SchemaMismatch(CalveError):
    """The data and the table do not fit together. Nothing was written."""


class BadRow(CalveError):
    """A row that does not fit (P8). The message says where it stands."""


class Tied(BadRow):
    """Changes of one key that differ, and nothing says which of them is the last (P8)."""


class SinkState(CalveError):
    """A call out of its order."""


class Gap(CalveError):
    """The table ends before the batch begins: changes between the two would be lost."""


class Overcompacted(CalveError):
    """The source can no longer deliver from the committed frontier on."""


class TableError(CalveError):
    """The table is not what the sink may write to."""


class TableMissing(TableError):
    """The table is not there. It is never created a second time by itself."""


class TableReplaced(TableError):
    """Another table stands under the same name."""


class TableDiffers(TableError):
    """An existing table does not fit the configuration."""


class RolledBack(TableError):
    """main does not descend from the sink's last commit."""


class Diverged(TableError):
    """The progress in the table contradicts the source or the configuration."""


class ForeignRows(TableError):
    """Somebody else wrote rows, and the sink was told to halt."""


class CatalogWithoutTags(TableError):
    """The catalog answered a claim with success and kept no tag."""


class Fenced(CalveError):
    """Another run has claimed the sink. This run stops and has changed nothing since."""


class PremiseBroken(CalveError):
    """What a batch took for granted about the table has changed. It is written again, not committed."""


class CatalogError(CalveError):
    """The catalog refused a request or is out of reach. Nothing was committed."""


class AccessDenied(CatalogError):
    """The catalog or the store denies a right that the sink needs."""


class BrokerError(CalveError):
    """The broker is out of reach, or has not what is to be read. Nothing was written."""


class RegistryError(CalveError):
    """The schema registry refused a request or is out of reach. Nothing was written."""


class CommitConflict(CalveError):
    """The commit certainly did not happen, and the attempts are used up."""


class CommitUnknown(CalveError):
    """The commit may have happened; its answer was lost and the table could not tell yet."""


class StoreError(CalveError):
    """A file could not be written or read."""


class FileMissing(StoreError):
    """A file that is named somewhere is not there: it was deleted or moved."""
