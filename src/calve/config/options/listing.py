"""The one list of options. Reader, documentation and the names in errors are made from it.

An option has one name, one field of the models, one kind and one default. A test compares the defaults with
those of the models, and docs/options.md with this list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calve.config import units
from calve.config.units import Parser, choice_of


@dataclass(frozen=True, slots=True)
class Kind:
    """What an option takes."""

    name: str
    parse: Parser
    show: Callable[[int], str] = str
    """How a number of it is told."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. A name that ends with `.*` stands for all names that begin so."""

    name: str
    field: str
    """The path in a SinkConfig; empty where the option is checked and not kept."""
    kind: Kind
    default: str
    """As a user would write it; empty where there is none."""
    meaning: str

    @property
    def prefix(self) -> str | None:
        return self.name.removesuffix("*") if self.name.endswith(".*") else None


def _choice(*words: str) -> Kind:
    return Kind(" / ".join(words), choice_of(*words))


_TEXT = Kind("text", units.parse_text)
_SIZE = Kind("size", units.parse_size, units.size_text)
_DURATION = Kind("duration", units.parse_duration, units.duration_text)
_NUMBER = Kind("number", units.parse_number)
_BOOL = Kind("true / false", units.parse_bool)
_LIST = Kind("list", units.parse_list)
_PROPERTY = Kind("text", units.parse_property)

OPTIONS: tuple[Option, ...] = (
    Option("connector", "", _choice("iceberg"), "iceberg", "What SQL asks for; may be left out elsewhere."),
    Option(
        "namespace", "namespace", _LIST, "", "**Required.** The namespace, its parts with dots between them."
    ),
    Option("table.name", "table", _TEXT, "", "**Required.** The table. It is created on the first batch."),
    Option(
        "catalog.type",
        "catalog.type",
        _choice("rest", "s3table", "glue", "hive", "memory", "sql"),
        "",
        "What the catalog speaks. Without it: `sql` for a `sqlite:` or `postgresql:` uri, `rest` for any "
        "other, and SQLite inside the warehouse when there is no uri either.",
    ),
    Option(
        "catalog.uri",
        "catalog.uri",
        _TEXT,
        "",
        "Where the catalog is. Needed by rest and hive; for glue, its ARN. May carry a login.",
    ),
    Option(
        "warehouse",
        "catalog.warehouse",
        _TEXT,
        "",
        "Where tables go: a folder or a URI. Needed by glue, hive and by sql with a uri; "
        "`calve-warehouse` for memory and when no catalog is named.",
    ),
    Option(
        "catalog.name",
        "catalog.name",
        _TEXT,
        "calve",
        "The catalog's own name; SQL catalogs keep tables by it.",
    ),
    Option(
        "catalog.prop.*",
        "catalog.properties",
        _PROPERTY,
        "",
        "A property of the catalog's client: token, scope, …",
    ),
    Option("storage.*", "catalog.storage", _PROPERTY, "", "A property of the object store: region, login, …"),
    Option(
        "write.mode",
        "mode",
        _choice("append", "changelog", "upsert"),
        "append",
        "append: rows as they are. changelog: every change is a row. upsert: one row a key, deletes applied.",
    ),
    Option(
        "equality.delete.columns", "key", _LIST, "", "The key. Needed by upsert, may be given for changelog."
    ),
    Option(
        "op.column",
        "op_column",
        _TEXT,
        "_op",
        "The column that says what a row does. If it is named, data must have it.",
    ),
    Option(
        "sequence.by",
        "sequence_by",
        _LIST,
        "",
        "The columns that order the changes of a key in an epoch (upsert), or tell them apart (changelog).",
    ),
    Option(
        "changelog.op.column",
        "changelog_op_column",
        _TEXT,
        "_calve_op",
        "Changelog: the column that gets the op.",
    ),
    Option(
        "changelog.time.column",
        "changelog_time_column",
        _TEXT,
        "_calve_time",
        "Changelog: the column that gets the time.",
    ),
    Option("null.keys", "null_keys", _choice("refuse", "allow"), "refuse", "Whether a key may have nulls."),
    Option(
        "inserts.are.new",
        "inserts_are_new",
        _BOOL,
        "false",
        "Upsert: an insert's key is never in the table yet.",
    ),
    Option(
        "partition.spec",
        "partition",
        _LIST,
        "",
        "`DAYS(ts), BUCKET(16, id), region`: how rows are cut into partitions.",
    ),
    Option(
        "sort.order", "sort", _LIST, "", "`event_time DESC NULLS LAST, id`: how rows are sorted inside files."
    ),
    Option("location", "location", _TEXT, "", "The table's own folder, instead of one inside the warehouse."),
    Option("table.prop.*", "table_properties", _PROPERTY, "", "A property of a table that is created."),
    Option(
        "schema.evolution",
        "schema_evolution",
        _BOOL,
        "false",
        "Whether new columns and wider types change the table.",
    ),
    Option(
        "file.format",
        "",
        _choice("parquet", "orc", "avro"),
        "parquet",
        "Only parquet; orc and avro are refused.",
    ),
    Option(
        "delivery.guarantee",
        "delivery",
        _choice("exactly-once", "at-least-once"),
        "exactly-once",
        "What is promised of an epoch that is sent again.",
    ),
    Option(
        "writer.id",
        "sink_id",
        _TEXT,
        "",
        "Under this name the table remembers the sink. From the table's name when it is left "
        "out: the same at every start.",
    ),
    Option(
        "foreign.rows",
        "foreign_rows",
        _choice("count", "halt"),
        "count",
        "What to do when others write rows.",
    ),
    Option(
        "fence",
        "fence",
        _choice("tag", "main"),
        "tag",
        "What keeps out a run that another has overtaken. main: for a catalog that loses tags; an empty "
        "snapshot on main at every start, and limits that docs/sink.md tells.",
    ),
    Option("commit.attempts", "commit_attempts_max", _NUMBER, "10", "How often a commit is tried."),
    Option("commit.timeout", "commit_timeout_ms", _DURATION, "5m", "How long a commit is tried."),
    Option(
        "heartbeat",
        "heartbeat",
        _NUMBER,
        "0",
        "Commit an epoch without changes after this many epochs; 0: never.",
    ),
    Option(
        "target.file.size",
        "target_file_bytes",
        _SIZE,
        "128MB",
        "The size at which a file is closed.",
    ),
    Option(
        "memory.limit", "memory_bytes_max", _SIZE, "512MB", "The sink's memory; what is more goes to disk."
    ),
    Option(
        "spill.folder",
        "spill_folder",
        _TEXT,
        "",
        "Where it goes; tried out when the sink is opened. The system's temporary folder otherwise.",
    ),
    Option(
        "max.buffer.records",
        "buffer_rows_max",
        _NUMBER,
        "100000",
        "Rows that are buffered before they are written.",
    ),
    Option(
        "max.buffer.bytes",
        "buffer_bytes_max",
        _SIZE,
        "64MB",
        "Bytes that are buffered; an eighth of the memory limit.",
    ),
    Option(
        "max.buffer.duration",
        "buffer_ms_max",
        _DURATION,
        "60s",
        "How long rows are buffered. It is looked at when rows arrive: while none come, they stay where they "
        "are until `flush` or the commit.",
    ),
    Option(
        "parquet.row-group.size",
        "parquet.row_group_bytes",
        _SIZE,
        "16MB",
        "Arrow memory that makes a row group.",
    ),
    Option(
        "parquet.row-group.rows",
        "parquet.row_group_rows_max",
        _NUMBER,
        "1048576",
        "Rows of a row group at most.",
    ),
    Option("parquet.page.size", "parquet.page_bytes", _SIZE, "1MB", "The size of a page."),
    Option(
        "parquet.dictionary",
        "parquet.dictionary",
        Kind("true / false / list", units.parse_dictionary),
        "true",
        "Which columns get a dictionary: where a sample says that it pays, none, or those named.",
    ),
    Option(
        "parquet.dictionary.size",
        "parquet.dictionary_bytes_max",
        _SIZE,
        "1MB",
        "The size of a dictionary at most.",
    ),
    Option(
        "parquet.compression",
        "parquet.compression",
        _choice("zstd", "snappy", "gzip", "lz4", "brotli", "none", "uncompressed"),
        "zstd",
        "The codec.",
    ),
    Option(
        "parquet.compression.level",
        "parquet.compression_level",
        _NUMBER,
        "3",
        "The codec's level: 3 for zstd, its own for others.",
    ),
)

NOT_YET: tuple[str, ...] = (
    "maintenance.compaction",
    "maintenance.expire-snapshots",
    "maintenance.snapshot-retention",
)
"""Options whose work is not there yet. Setting one is refused: it would promise what does not happen."""

OPTION_OF_FIELD = {option.field: option.name for option in OPTIONS if option.field}
KIND_OF_FIELD = {option.field: option.kind for option in OPTIONS if option.field}
REQUIRED = ("namespace", "table.name")
