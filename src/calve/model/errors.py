"""Everything that can go wrong, as a tree; each error says what is known and what to do next.

CalveError
├── ConfigError            what was asked for cannot be done; nothing was changed
│   ├── UnknownOption      … with the nearest right one
│   ├── BadName            a namespace, table or sink name that is refused
│   ├── BadPartition       a partition transform or sort order that does not fit
│   ├── BadStatement       SQL that cannot be read, with its place
│   ├── BadColumns         columns of a source that cannot be read: a type, a list, a CREATE TABLE
│   ├── BadKey             a key that cannot identify rows
│   └── OtherWord          a word of Spark's for which calve has another
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
│   ├── CatalogWithoutTags the catalog took a claim and kept no tag
│   ├── SnapshotMissing    no such snapshot, tag or branch
│   └── Unreadable         the table holds what calve.read cannot read
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

Each has a code of its own, which never changes: docs/errors.md lists them, by hundreds as they stand here:

  100 what was asked for   200 SQL       300 rows and values   400 the table   500 the catalog
  600 the store            700 sources   800 a run             900 the command line
"""

from __future__ import annotations

from calve.model.error import About as About
from calve.model.error import CalveError as CalveError
from calve.model.error import Effect
from calve.model.error import about as about


class ConfigError(CalveError):
    """What was asked for cannot be done. Nothing was changed."""

    code = "CALVE-100"
    effect = Effect.NOTHING
    advice = "Change what the message names; docs/options.md lists all options."


class UnknownOption(ConfigError):
    """An option that does not exist."""

    code = "CALVE-101"
    advice = "Take the name that the hint gives; docs/options.md lists all options."


class BadName(ConfigError):
    """A name of a namespace, table, column or sink that is refused."""

    code = "CALVE-102"
    advice = "Take another name, as the hint says."


class BadPartition(ConfigError):
    """A partition transform or sort order that cannot be parsed or does not fit its column."""

    code = "CALVE-103"
    advice = "Write a transform of Iceberg over a column of the table, such as day(ts)."


class BadStatement(ConfigError):
    """A statement of SQL that cannot be read."""

    code = "CALVE-200"
    advice = "Mend the statement at the place that the caret shows."


class BadColumns(ConfigError):
    """Columns of a source that cannot be read: a type, a column list, a CREATE TABLE."""

    code = "CALVE-104"
    advice = "Write the columns as docs/types.md has them."


class BadKey(ConfigError):
    """A key that cannot identify rows."""

    code = "CALVE-105"
    advice = "Name columns that are there, are never null and tell rows apart."


class OtherWord(ConfigError, AttributeError):
    """A method of Spark's writers for which calve has another word."""  # `hasattr` expects the latter

    code = "CALVE-106"
    advice = "Write the word that the hint gives; docs/spark.md has them all."


class BadTime(CalveError):
    """A value that is not a time."""

    code = "CALVE-320"
    effect = Effect.UNCOMMITTED
    advice = "Times are integers of up to 38 digits, or a hybrid logical clock."


class BadBatch(CalveError):
    """Bounds that are not a batch."""

    code = "CALVE-321"
    effect = Effect.UNCOMMITTED
    advice = "Send the changes again, as the hint says."


class BadMessage(CalveError):
    """A message that cannot be read, or whose hash is wrong."""

    code = "CALVE-322"
    effect = Effect.UNCOMMITTED
    advice = "Start the sink again: the batch is written again."


class SchemaMismatch(CalveError):
    """The data and the table do not fit together. Nothing was written."""

    code = "CALVE-310"
    effect = Effect.UNCOMMITTED
    advice = "Let the table follow (schema.evolution), or mend the source or the table."


class BadRow(CalveError):
    """A row that does not fit (P8). The message says where it stands."""

    code = "CALVE-300"
    effect = Effect.UNCOMMITTED
    advice = "Mend the row at its source, or let such rows go to the quarantine."


class Tied(BadRow):
    """Changes of one key that differ, and nothing says which of them is the last (P8)."""

    code = "CALVE-301"
    advice = "Name a column that orders the changes of a key: sequence_by."


class SinkState(CalveError):
    """A call out of its order."""

    code = "CALVE-800"
    effect = Effect.NOTHING
    advice = "Call in the order that docs/sink.md shows."


class Gap(CalveError):
    """The table ends before the batch begins: changes between the two would be lost."""

    code = "CALVE-703"
    effect = Effect.UNCOMMITTED
    advice = "Send what lies between the two again."


class Overcompacted(CalveError):
    """The source can no longer deliver from the committed frontier on."""

    code = "CALVE-702"
    effect = Effect.UNCOMMITTED
    advice = "Have the source send everything again, then go on as the hint says."


class TableError(CalveError):
    """The table is not what the sink may write to."""

    code = "CALVE-400"
    effect = Effect.UNCOMMITTED
    advice = "Look at the table with `calve status`, then do as the hint says."


class TableMissing(TableError):
    """The table is not there. It is never created a second time by itself."""

    code = "CALVE-401"
    advice = "Restore the table, or start anew under another sink id."


class TableReplaced(TableError):
    """Another table stands under the same name."""

    code = "CALVE-402"
    advice = "Put the table back, or start anew under another sink id."


class TableDiffers(TableError):
    """An existing table does not fit the configuration."""

    code = "CALVE-403"
    advice = "Change the configuration or the table until both say the same."


class RolledBack(TableError):
    """main does not descend from the sink's last commit."""

    code = "CALVE-404"
    advice = "Set main to a descendant of the sink's last commit, or start anew under another sink id."


class Diverged(TableError):
    """The progress in the table contradicts the source or the configuration."""

    code = "CALVE-405"
    advice = "Run with the source and the checkpoint that the sink was begun with, or do as the hint says."


class ForeignRows(TableError):
    """Somebody else wrote rows, and the sink was told to halt."""

    code = "CALVE-406"
    advice = "Find out who writes there; foreign_rows = 'count' goes on."


class CatalogWithoutTags(TableError):
    """The catalog answered a claim with success and kept no tag."""

    code = "CALVE-407"
    advice = "Use a catalog that keeps tags, or run the sink with fence = 'main'."


class SnapshotMissing(TableError):
    """The table has no such snapshot, tag or branch."""

    code = "CALVE-408"
    advice = "Name one that is there: `calve history` lists them."


class Unreadable(TableError):
    """The table holds files or types that cannot be read here."""

    code = "CALVE-409"
    advice = "Read it with the engine that wrote it, or let that engine rewrite what cannot be read."


class Fenced(CalveError):
    """Another run has claimed the sink. This run stops and has changed nothing since."""

    code = "CALVE-801"
    effect = Effect.UNCOMMITTED
    advice = "Let the other run go on; or stop it, then start this one again."


class PremiseBroken(CalveError):
    """What a batch took for granted about the table has changed. It is written again, not committed."""

    code = "CALVE-802"
    effect = Effect.UNCOMMITTED
    advice = "Start again: the batch is written again on the table as it is now."


class CatalogError(CalveError):
    """The catalog refused a request or is out of reach. Nothing was committed."""

    code = "CALVE-500"
    effect = Effect.UNCOMMITTED
    advice = "Try `calve doctor`: it says what the catalog can do and what it lacks."


class AccessDenied(CatalogError):
    """The catalog or the store denies a right that the sink needs."""

    code = "CALVE-501"
    advice = "Give the login the right that the message names, or give another login."


class BrokerError(CalveError):
    """The broker is out of reach, or has not what is to be read. Nothing was written."""

    code = "CALVE-700"
    effect = Effect.UNCOMMITTED
    advice = "See that the broker is up, and that the topic's name is right."


class RegistryError(CalveError):
    """The schema registry refused a request or is out of reach. Nothing was written."""

    code = "CALVE-701"
    effect = Effect.UNCOMMITTED
    advice = "See that the registry is up, and that its URL and login are right."


class CommitConflict(CalveError):
    """The commit certainly did not happen, and the attempts are used up."""

    code = "CALVE-510"
    effect = Effect.UNCOMMITTED
    advice = "Start again when the others are done who change the table."


class CommitUnknown(CalveError):
    """The commit may have happened; its answer was lost and the table could not tell yet."""

    code = "CALVE-511"
    effect = Effect.PERHAPS
    advice = "Start again, or commit the same epoch again: the table tells, and nothing is doubled."


class StoreError(CalveError):
    """A file could not be written or read."""

    code = "CALVE-600"
    effect = Effect.UNCOMMITTED
    advice = "Try `calve doctor`: it writes, reads and deletes an object. Files left behind harm nobody."


class FileMissing(StoreError):
    """A file that is named somewhere is not there: it was deleted or moved."""

    code = "CALVE-601"
    advice = "Restore the file, or find out what deleted it."
