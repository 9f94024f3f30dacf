"""Metrics of a file: counts and bounds by field id, from the footer that the writer itself just wrote.

    schema ─▶ leaves ─┐
    footer ───────────┼─▶ ColumnMetrics
    NaN counts ───────┘

Guarantee: what a manifest says of a column holds for every row of the file. A reader skips the file by
it, so a bound that is not certain is left out: a row group whose statistics are missing (Arrow drops
those beyond 4 KB) takes the whole column's bounds away. NaN is in no bound; nulls are not compared;
zero is between -0.0 and +0.0. Bounds are kept for primitive columns outside lists and maps, counts for
every leaf, as Iceberg has it.

Leaves are matched to Parquet columns by position, never by name: `a.b` may be one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from calve.decode.nested import as_lists, elements
from calve.model.errors import SchemaMismatch
from calve.model.file import ColumnMetrics
from calve.writer.bounds import encode_bound, encode_unscaled, truncate_lower, truncate_upper
from calve.writer.plan import ColumnMode, MetricsMode

FIELD_ID = b"PARQUET:field_id"
_ELEMENTS = -1
"""The step from a list or map to its elements; other steps are the numbers of a struct's fields."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column of a file, however deep it lies."""

    field_id: int
    kind: pa.DataType
    steps: tuple[int, ...]
    """The way from the table to the leaf: a column's number, then fields of structs and `_ELEMENTS`."""
    path: str
    """Its path in the Parquet schema."""

    @property
    def repeated(self) -> bool:
        """Whether it lies in a list or map: then it has counts, but no bounds."""
        return _ELEMENTS in self.steps

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The leaf's values in a table, those of all lists and maps in one column."""
        column = table.column(self.steps[0])
        for step in self.steps[1:]:
            column = _elements(column) if step == _ELEMENTS else pc.struct_field(column, [step])
        return column


def field_id(field: pa.Field) -> int:
    """The Iceberg id that a field carries."""
    text = (field.metadata or {}).get(FIELD_ID)
    if text is None:
        raise SchemaMismatch(
            f"the field {field.name!r} has no field id",
            hint="Every field of the plan's schema carries PARQUET:field_id, nested ones too.",
        )
    return int(text)


def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """The leaves of a schema in the order of Parquet's columns."""
    return tuple(
        leaf for number, field in enumerate(schema) for leaf in _leaves_of(field, (number,), field.name)
    )


def _leaves_of(field: pa.Field, steps: tuple[int, ...], path: str) -> Iterator[Leaf]:
    kind = field.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            child = kind.field(number)
            yield from _leaves_of(child, (*steps, number), f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        for number, (child, name) in enumerate(((kind.key_field, "key"), (kind.item_field, "value"))):
            yield from _leaves_of(child, (*steps, _ELEMENTS, number), f"{path}.key_value.{name}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves_of(kind.value_field, (*steps, _ELEMENTS), f"{path}.list.element")
    else:
        yield Leaf(field_id(field), kind, steps, path)


def _elements(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind, chunks = column.type, column.chunks
    if pa.types.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        return pa.chunked_array([elements(as_lists(chunk)) for chunk in chunks], entry)
    return pa.chunked_array([elements(chunk) for chunk in chunks], kind.value_type)


class NanCounter:
    """Counts the NaNs of float leaves while they are written, row group by row group."""

    def __init__(self, schema: pa.Schema) -> None:
        self._leaves = [leaf for leaf in leaves(schema) if pa.types.is_floating(leaf.kind)]
        self._groups: list[dict[int, int]] = []

    def count(self, row_group: pa.Table) -> None:
        """Take note of the next row group."""
        self._groups.append({leaf.field_id: _nans(leaf.values(row_group)) for leaf in self._leaves})

    def of(self, leaf_id: int, row_group: int) -> int:
        """The NaNs of one leaf in one row group."""
        return self._groups[row_group].get(leaf_id, 0) if row_group < len(self._groups) else 0

    def totals(self) -> dict[int, int]:
        """The NaNs of every float leaf in all row groups."""
        return {leaf.field_id: sum(group[leaf.field_id] for group in self._groups) for leaf in self._leaves}


def _nans(column: pa.ChunkedArray) -> int:
    return pc.sum(pc.is_nan(column)).as_py() or 0


def footer_metrics(
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    modes: Mapping[int, ColumnMode],
    nans: NanCounter | None = None,
) -> ColumnMetrics:
    """The metrics of a file that was written with `schema`; columns without a mode have the default."""
    metrics = ColumnMetrics({}, {}, {}, {}, {}, {})
    nan_counts = nans.totals() if nans is not None else {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for column, leaf in enumerate(leaves(schema)):
        chunks = [group.column(column) for group in groups]
        _put(metrics.column_bytes, leaf, sum(chunk.total_compressed_size for chunk in chunks))
        mode = modes.get(leaf.field_id, ColumnMode())
        if mode.mode is MetricsMode.NONE:
            continue
        _put(metrics.value_counts, leaf, sum(chunk.num_values for chunk in chunks))
        if all(_counts_nulls(chunk) for chunk in chunks):
            _put(metrics.null_counts, leaf, sum(chunk.statistics.null_count for chunk in chunks))
        if leaf.field_id in nan_counts:
            _put(metrics.nan_counts, leaf, nan_counts[leaf.field_id])
        if mode.mode is not MetricsMode.COUNTS and not leaf.repeated:
            _put_bounds(metrics, leaf, mode, _ends(leaf, chunks, nans))
    return metrics


def split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Where row groups begin: a reader may start at each of them."""
    return tuple(_begins(metadata.row_group(number).column(0)) for number in range(metadata.num_row_groups))


def _begins(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset
    data: int = chunk.data_page_offset
    return min(dictionary, data) if chunk.has_dictionary_page and dictionary else data


def _counts_nulls(chunk: pq.ColumnChunkMetaData) -> bool:
    return bool(chunk.is_stats_set and chunk.statistics.has_null_count)


def _put(counts: Mapping[int, Any], leaf: Leaf, value: Any) -> None:
    assert isinstance(counts, dict)
    counts[leaf.field_id] = value


def _ends(
    leaf: Leaf, chunks: Iterable[pq.ColumnChunkMetaData], nans: NanCounter | None
) -> tuple[Any, Any] | None:
    """The least and the greatest value in the footer; None where there is none or it is not certain."""
    least: list[Any] = []
    greatest: list[Any] = []
    for number, chunk in enumerate(chunks):
        if not _counts_nulls(chunk):
            return None
        statistics = chunk.statistics
        if statistics.has_min_max:
            least.append(_value(leaf, statistics.min_raw))
            greatest.append(_value(leaf, statistics.max_raw))
        elif chunk.num_values - statistics.null_count > (nans.of(leaf.field_id, number) if nans else 0):
            return None
    return (min(least), max(greatest)) if least else None


def _value(leaf: Leaf, raw: Any) -> Any:
    """A raw statistic in a form that compares as Iceberg compares: decimals as integers."""
    is_decimal = pa.types.is_decimal(leaf.kind)
    return int.from_bytes(raw, "big", signed=True) if is_decimal and isinstance(raw, bytes) else raw


def _put_bounds(metrics: ColumnMetrics, leaf: Leaf, mode: ColumnMode, ends: tuple[Any, Any] | None) -> None:
    if ends is None:
        return
    lower, upper = ends
    if pa.types.is_decimal(leaf.kind):
        _put(metrics.lower_bounds, leaf, encode_unscaled(lower))
        _put(metrics.upper_bounds, leaf, encode_unscaled(upper))
        return
    if pa.types.is_floating(leaf.kind):
        if lower != lower or upper != upper:
            return  # a NaN got into the statistics: they bound nothing
        lower, upper = lower if lower != 0 else -0.0, upper if upper != 0 else 0.0
    if _is_text(leaf.kind):
        lower, upper = lower.decode(), upper.decode()
    if mode.mode is MetricsMode.TRUNCATE and _is_cut(leaf.kind):
        lower, upper = truncate_lower(lower, mode.length), truncate_upper(upper, mode.length)
    _put(metrics.lower_bounds, leaf, encode_bound(lower, leaf.kind))
    if upper is not None:
        _put(metrics.upper_bounds, leaf, encode_bound(upper, leaf.kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_cut(kind: pa.DataType) -> bool:
    """Strings, binaries and fixed are cut, a uuid is not."""
    return _is_text(kind) or bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
