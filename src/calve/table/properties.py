"""Table properties that tell how files are written: sizes, compression, and what is kept of each column.

    properties ──metrics──▶ by leaf column, what a manifest keeps of it
               ──files────▶ Parquet's settings, as far as the table sets them

As Iceberg's own writers read them, so that a table's files are alike whoever writes. One thing is ours:
key columns are kept as sort columns are, with bounds at least, because readers use the bounds of keys to
skip equality deletes that cannot reach a file.

Guarantee: a property that cannot be followed is refused by name. A setting that is quietly something else
would be found only when the files are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypedDict

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from calve.model.errors import ConfigError
from calve.table.schema import nearest

_METRICS = "write.metadata.metrics."
_COLUMN = _METRICS + "column."
_INFERRED_MAX = _METRICS + "max-inferred-column-defaults"
_INFERRED_MAX_DEFAULT = 100
_MODE = re.compile(r"(none|counts|full)|truncate\(([0-9]{1,9})\)", re.ASCII | re.IGNORECASE)
_WITHOUT_BOUNDS = frozenset({"none", "counts"})

_SIZES = {
    "write.target-file-size-bytes": "target_file_bytes",
    "write.parquet.row-group-size-bytes": "row_group_bytes",
    "write.parquet.row-group-limit": "row_group_rows_max",
    "write.parquet.page-size-bytes": "page_bytes",
    "write.parquet.dict-size-bytes": "dictionary_bytes_max",
}
_CODEC = "write.parquet.compression-codec"
_LEVEL = "write.parquet.compression-level"
_CODECS = {name: name for name in ("zstd", "gzip", "snappy", "brotli", "lz4")} | {"uncompressed": "none"}
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}
"""The levels that a codec takes; one that is not here takes none."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a manifest keeps of a leaf: `none`, `counts`, `truncate` (bounds cut at a length) or `full`."""

    mode: str = "truncate"
    length: int = 16


class FileProperties(TypedDict, total=False):
    """What a table, or a user, sets of Parquet's settings; by the names that the writer has for them."""

    target_file_bytes: int
    row_group_bytes: int
    row_group_rows_max: int
    page_bytes: int
    dictionary: bool | tuple[str, ...]
    dictionary_bytes_max: int
    compression: str
    compression_level: int | None


def column_metrics(
    properties: Mapping[str, str], schema: Schema, bounded: frozenset[str] = frozenset()
) -> dict[int, Metrics]:
    """What is kept of each leaf, by field id. `bounded` are the key and sort columns: they keep bounds
    unless a property of their own says otherwise."""
    default = _parse_mode(properties, _METRICS + "default")
    leaves = list(_leaves(schema.as_struct()))
    modes = dict.fromkeys((leaf.field_id for leaf in leaves), default or Metrics())
    if default is None:
        # A table of a thousand columns would have manifests larger than its files: the rest keeps nothing.
        limit = _number(properties, _INFERRED_MAX) if _INFERRED_MAX in properties else _INFERRED_MAX_DEFAULT
        modes |= {leaf.field_id: Metrics("none") for leaf in leaves[limit:]}
    for leaf in leaves:
        name = schema.find_column_name(leaf.field_id) or leaf.name
        if name in bounded and modes[leaf.field_id].mode in _WITHOUT_BOUNDS:
            modes[leaf.field_id] = Metrics()
        if (own := _parse_mode(properties, _COLUMN + name)) is not None:
            modes[leaf.field_id] = own
    return modes


def file_properties(properties: Mapping[str, str], explicit: FileProperties | None = None) -> FileProperties:
    """The settings that the table's properties make, under those that a user made explicitly."""
    explicit = explicit or {}
    settings = FileProperties()
    for name, setting in _SIZES.items():
        if name in properties:
            settings[setting] = _number(properties, name, least=1)  # type: ignore[literal-required]
    if "compression" not in explicit:
        # The table's level belongs to the table's codec: 19 is fine for zstd and an error for gzip.
        settings |= _compression(properties, leveled="compression_level" not in explicit)
    return settings | explicit


def check_dictionary(dictionary: bool | tuple[str, ...], schema: Schema) -> None:
    """Refuse a dictionary for a column that the table lacks: nobody would know that it is not there."""
    names = [column.name for column in schema.fields]
    for name in () if isinstance(dictionary, bool) else dictionary:
        if name not in names:
            raise ConfigError(
                f"parquet.dictionary names {name!r}, which is not among the table's columns",
                hint=nearest(name, names),
                about="parquet.dictionary",
            )


def _compression(properties: Mapping[str, str], leveled: bool) -> FileProperties:
    settings = FileProperties()
    if _CODEC in properties:
        if (codec := properties[_CODEC].lower()) not in _CODECS:
            raise _bad(properties, _CODEC, f"one of {', '.join(_CODECS)}")
        settings["compression"] = _CODECS[codec]
        settings["compression_level"] = None
    levels = _LEVELS.get(settings.get("compression", "zstd"))
    if _LEVEL in properties and leveled and levels is not None:
        if (level := _number(properties, _LEVEL)) not in levels:
            raise _bad(properties, _LEVEL, f"{levels.start} to {levels.stop - 1} for this codec")
        settings["compression_level"] = level
    return settings


def _leaves(root: IcebergType) -> Iterator[NestedField]:
    """Leaves in the order in which Iceberg counts them: those of a level first, then what is inside."""
    match root:
        case StructType():
            inner: tuple[NestedField, ...] = root.fields
        case ListType():
            inner = (root.element_field,)
        case MapType():
            inner = (root.key_field, root.value_field)
        case _:
            return
    yield from (field for field in inner if field.field_type.is_primitive)
    for field in inner:
        yield from _leaves(field.field_type)


def _parse_mode(properties: Mapping[str, str], name: str) -> Metrics | None:
    if name not in properties:
        return None
    match = _MODE.fullmatch(properties[name].strip())
    if match is None or match[2] == "0":
        raise _bad(properties, name, "none, counts, truncate(<length>) or full")
    return Metrics(match[1].lower()) if match[1] else Metrics("truncate", int(match[2]))


def _number(properties: Mapping[str, str], name: str, least: int = 0) -> int:
    try:
        number = int(properties[name])
    except ValueError:
        raise _bad(properties, name, "a whole number") from None
    if number < least:
        raise _bad(properties, name, f"a number of at least {least}")
    return number


def _bad(properties: Mapping[str, str], name: str, takes: str) -> ConfigError:
    return ConfigError(
        f"the table property {name!r} is {properties[name]!r}, which cannot be followed",
        hint=f"It takes {takes}. Set it anew or remove it from the table.",
        about=f"table.prop.{name}",
    )
