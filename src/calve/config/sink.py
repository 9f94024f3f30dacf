"""SinkConfig: all that a user says of one sink. Checked as a whole, frozen, and safe to print.

The same object stands behind Python, SQL, the command line and the plain sink. Everything that can be known
to be wrong without looking at data or a catalog is refused here, before anything is created. Sizes and
limits have their unit in their name. `model_dump`, `repr`, `str` and `describe` mask secrets (P10).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)

from calve.config.catalog import CatalogConfig, check_place
from calve.config.layout import format_partition, format_sort, parse_columns, parse_partition, parse_sort
from calve.config.names import check_column, check_namespace, check_table
from calve.config.options.read import read_options
from calve.config.parquet import FILE_BYTES_MAX, KB, MB, Bytes, Count, ParquetConfig
from calve.config.rules import check_together
from calve.config.secret import FrozenMap, Secrets, is_secret_name, refuse_secrets
from calve.config.settings import Settings
from calve.config.units import parse_property, parse_text
from calve.config.url import url_options
from calve.model.errors import ConfigError, about
from calve.model.layout import PartitionField, SortField
from calve.model.progress import check_sink_id, default_sink_id


class Mode(StrEnum):
    """What becomes of changes."""

    APPEND = "append"  # rows as they are
    CHANGELOG = "changelog"  # every change is a row, with its op and its time
    UPSERT = "upsert"  # the table is the state: keys, deletes, P1


class Delivery(StrEnum):
    """What is promised of an epoch that is sent again."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class ForeignRows(StrEnum):
    """What to do when somebody else writes rows to the table."""

    COUNT = "count"
    HALT = "halt"


class FenceKind(StrEnum):
    """What keeps out a run that another has overtaken."""

    TAG = "tag"  # a tag of the sink's own: readers of main see nothing of a claim
    MAIN = "main"  # an empty snapshot on main, where the catalog loses tags


class NullKeys(StrEnum):
    """What to do with a row whose key has a null."""

    REFUSE = "refuse"
    ALLOW = "allow"


def _namespace(value: object) -> tuple[str, ...]:
    parts = value.split(".") if isinstance(value, str) else value
    return check_namespace(tuple(_texts(parts, "namespace")))


def _table_properties(value: object) -> FrozenMap[str]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"table_properties are a {type(value).__name__}", hint="Give a mapping of names to texts."
        )
    return FrozenMap(
        {parse_text(name, "a table property"): _table_property(name, text) for name, text in value.items()}
    )


def _table_property(name: str, value: object) -> str:
    with about(f"table.prop.{name}"):
        return _checked_property(name, parse_property(value, f"the table property '{name}'"))


def _checked_property(name: str, text: str) -> str:
    # `write.metadata.metrics.column.token` speaks of a column that has that name.
    if is_secret_name(name.partition(".column.")[0]):
        raise ConfigError(
            f"the table property '{name}' may carry a secret, and everybody who reads the table can read it",
            hint="Give logins as 'catalog.prop.…' or 'storage.…' options: they are never stored.",
        )
    return refuse_secrets(text, f"table property '{name}'")


def _texts(value: object, what: str) -> Iterable[str]:
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        texts = list(value)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise ConfigError(f"{what} is not text nor a list of texts", hint="Give text, or a list of texts.")


def _layout(value: object, what: str) -> Any:
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return value
    raise ConfigError(f"{what} is a {type(value).__name__}", hint="Give text, or a list of texts.")


def _columns(what: str) -> BeforeValidator:
    def parse(value: object) -> tuple[str, ...]:
        with about(what):
            return parse_columns(value if isinstance(value, str) else _texts(value, what), what)

    return BeforeValidator(parse)


def _place(value: str | None, info: ValidationInfo) -> str | None:
    return None if value is None else check_place(value, str(info.field_name))


def _column(value: str, info: ValidationInfo) -> str:
    with about(str(info.field_name)):
        return check_column(value)


def _partition(value: object) -> tuple[PartitionField, ...]:
    with about("partition"):
        return parse_partition(_layout(value, "partition"))


def _sort(value: object) -> tuple[SortField, ...]:
    with about("sort"):
        return parse_sort(_layout(value, "sort"))


Place = Annotated[Annotated[str, Field(strict=True)] | None, AfterValidator(_place)]
ColumnName = Annotated[str, Field(strict=True), AfterValidator(_column)]
Partition = Annotated[
    tuple[PartitionField, ...],
    BeforeValidator(_partition),
    PlainSerializer(lambda fields: [format_partition(field) for field in fields]),
]
Sort = Annotated[
    tuple[SortField, ...],
    BeforeValidator(_sort),
    PlainSerializer(lambda fields: [format_sort(field) for field in fields]),
]
TableProperties = Annotated[FrozenMap[str], BeforeValidator(_table_properties), PlainSerializer(dict)]


class SinkConfig(Settings):
    """What a user asked for of one sink."""

    PLACE: ClassVar[str] = ""

    if TYPE_CHECKING:
        # Texts and lists are taken where a field holds a parsed value: type checkers may not know that.
        def __init__(self, **data: Any) -> None: ...

    namespace: Annotated[tuple[str, ...], BeforeValidator(_namespace)]
    """`analytics.prod`, or its parts."""
    table: Annotated[str, Field(strict=True), AfterValidator(check_table)]
    sink_id: str = Field(default=None, strict=True, validate_default=True)
    """Under this name the table remembers the sink. From the table's name: the same at every start."""
    catalog: CatalogConfig = Field(default_factory=CatalogConfig)

    mode: Mode = Mode.APPEND
    key: Annotated[tuple[str, ...], _columns("key")] = ()
    op_column: ColumnName = "_op"
    sequence_by: Annotated[tuple[str, ...], _columns("sequence_by")] = ()
    """Columns that order the changes of a key inside an epoch."""
    changelog_op_column: ColumnName = "_calve_op"
    changelog_time_column: ColumnName = "_calve_time"
    null_keys: NullKeys = NullKeys.REFUSE
    inserts_are_new: StrictBool = False
    """The source promises that an insert's key is not in the table: no delete is written for it."""

    partition: Partition = ()
    sort: Sort = ()
    location: Place = None
    table_properties: TableProperties = Field(default_factory=FrozenMap)
    schema_evolution: StrictBool = False

    delivery: Delivery = Delivery.EXACTLY_ONCE
    foreign_rows: ForeignRows = ForeignRows.COUNT
    fence: FenceKind = FenceKind.TAG
    commit_attempts_max: Annotated[Count, Field(ge=1, le=1_000)] = 10
    commit_timeout_ms: Annotated[Count, Field(ge=1_000, le=24 * 3_600_000)] = 300_000
    heartbeat: Annotated[Count, Field(ge=0)] = 0
    """An epoch without changes is committed once the frontier is this many time units ahead; 0 is never."""

    target_file_bytes: Annotated[Bytes, Field(ge=64 * KB, le=FILE_BYTES_MAX)] = 128 * MB
    parquet: ParquetConfig = Field(default_factory=ParquetConfig)
    memory_bytes_max: Annotated[Bytes, Field(ge=32 * MB)] = 512 * MB
    buffer_rows_max: Annotated[Count, Field(ge=1)] = 100_000
    buffer_bytes_max: Annotated[Bytes, Field(ge=64 * KB)] = Field(default=None, validate_default=True)
    """An eighth of the memory, when nothing is said."""
    buffer_ms_max: Annotated[Count, Field(ge=1)] = 60_000
    spill_folder: Place = None
    """Where an epoch larger than memory goes; the system's own temporary folder, when nothing is said."""

    @field_validator("sink_id", mode="before")
    @classmethod
    def _sink_id(cls, value: object, info: ValidationInfo) -> object:
        if value is None:
            # A namespace or table that was refused is missing here, and is reported by itself.
            return default_sink_id(info.data.get("namespace", ()), info.data.get("table", "_"))
        with about("sink_id"):
            return check_sink_id(value) if isinstance(value, str) else value

    @field_validator("buffer_bytes_max", mode="before")
    @classmethod
    def _buffer_bytes_max(cls, value: object, info: ValidationInfo) -> object:
        return info.data.get("memory_bytes_max", 512 * MB) // 8 if value is None else value

    @model_validator(mode="after")
    def _together(self) -> SinkConfig:
        check_together(self)
        return self

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """A sink by option names: `{'namespace': 'dev', 'table.name': 'orders', 'write.mode': 'append'}`."""
        return cls(**read_options(options))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A sink by its URL: `iceberg://host:8181/sales/orders?warehouse=…&equality_delete_by=id`."""
        return cls.from_options(url_options(url))

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace, self.table)

    @property
    def table_name(self) -> str:
        """`analytics.prod.orders`, for messages."""
        return ".".join(self.identifier)

    @property
    def op_column_is_explicit(self) -> bool:
        """Whether the user named the op column: then data without it is an error."""
        return "op_column" in self.model_fields_set

    @property
    def secrets(self) -> Secrets:
        """All that must not show of this sink: what libraries underneath say goes through its `redact`."""
        return self.catalog.secrets

    def redact(self, text: str) -> str:
        return self.secrets.redact(text)

    def describe(self) -> dict[str, Any]:
        """All settings as plain JSON values, secrets masked: for status pages and logs."""
        described: dict[str, Any] = json.loads(self.model_dump_json())
        return described

    def __str__(self) -> str:
        return f"SinkConfig({self.table_name}, {self.mode}, sink {self.sink_id})"
