"""Layout: `day(ts), bucket(16, id)` as Iceberg's partition spec, a sort order as Iceberg's, and back.

Names are those that Iceberg's own builder gives, so that a table looks as if Spark had made it: `ts_day`,
`id_bucket`, `name_trunc`, the column's own name for identity. Where such a name is taken, by a column or by
another field of the spec, the width is added (`id_bucket_16`); where that is taken as well, it is refused.

Guarantee: a spec or order that is returned here fits its columns' types, and `from_spec` of it is what
was asked for. A spec of somebody else that our writer cannot follow (a nested column, a transform that
is not Iceberg's) is refused by name and never followed in part: a file in the wrong partition is lost to
readers. A foreign sort order that we cannot follow is only a wish: `from_sort_order` says None, and files
are written without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.partitioning import PartitionField as SpecField
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as OrderField
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.types import IcebergType, NestedField

from calve.model.errors import About, BadPartition, about
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.table.schema import nearest

_TIMES = "date, timestamp and timestamptz"
_TAKES = {
    TransformKind.IDENTITY: "every type that is not nested",
    TransformKind.VOID: "every type that is not nested",
    TransformKind.BUCKET: "int, long, decimal, string, binary, fixed, uuid, date, time and timestamps",
    TransformKind.TRUNCATE: "int, long, decimal, string and binary",
    TransformKind.YEAR: _TIMES,
    TransformKind.MONTH: _TIMES,
    TransformKind.DAY: _TIMES,
    TransformKind.HOUR: "timestamp and timestamptz",
}
_SUFFIX = {TransformKind.TRUNCATE: "_trunc", TransformKind.VOID: "_null", TransformKind.IDENTITY: ""}
_SPELLING = re.compile(r"([a-z]+)(?:\[([0-9]+)\])?", re.ASCII)


def to_spec(fields: tuple[PartitionField, ...], schema: Schema) -> PartitionSpec:
    """The partition spec of a new table."""
    taken = {column.name.casefold() for column in schema.fields}
    spec_fields: list[SpecField] = []
    for position, field in enumerate(fields):
        if field in fields[:position]:
            raise BadPartition(
                f"{field} stands twice in the partition",
                hint="Name it once.",
                about=About("partition", str(field)),
            )
        with about("partition", str(field)):
            column = _column(field.column, schema, str(field), "partitioned")
            _check_transform(field, column.field_type)
            name = _field_name(field, taken)
        taken.add(name.casefold())
        transform = parse_transform(str(field.transform))
        spec_fields.append(SpecField(column.field_id, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*spec_fields)


def from_spec(spec: PartitionSpec, schema: Schema) -> tuple[PartitionField, ...]:
    """The fields of a table's spec, in their order."""
    columns = {column.field_id: column.name for column in schema.fields}
    return tuple(_from_spec_field(field, columns, schema) for field in spec.fields)


def to_sort_order(fields: tuple[SortField, ...], schema: Schema) -> SortOrder:
    """The sort order of a new table."""
    if not fields:
        return UNSORTED_SORT_ORDER
    names = [field.column for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise BadPartition(
                f"the sort order names {name!r} twice", hint="Only the first one counts.", about="sort"
            )
    with about("sort"):
        return SortOrder(*(_to_order_field(field, schema) for field in fields))


def from_sort_order(order: SortOrder, schema: Schema) -> tuple[SortField, ...] | None:
    """A table's sort order; None where it is one that our writer cannot follow."""
    columns = {column.field_id: column.name for column in schema.fields}
    for field in order.fields:
        if field.source_id not in columns or not isinstance(field.transform, IdentityTransform):
            return None
    return tuple(
        SortField(
            columns[field.source_id],
            descending=field.direction is SortDirection.DESC,
            nulls_first=field.null_order is NullOrder.NULLS_FIRST,
        )
        for field in order.fields
    )


def describe(fields: Iterable[PartitionField | SortField]) -> str:
    """A layout in a message."""
    return ", ".join(str(field) for field in fields) or "none"


def _column(name: str, schema: Schema, place: str, what: str) -> NestedField:
    columns = {column.name: column for column in schema.fields}
    if name in columns:
        return columns[name]
    outer, dot, _ = name.partition(".")
    if dot and outer in columns:
        raise BadPartition(
            f"{place}: {name!r} lies inside the column {outer!r}; a table is {what} by its own columns here",
            hint="Take the value out into a column of its own.",
        )
    raise BadPartition(f"{place}: there is no column {name!r}", hint=nearest(name, columns))


def _check_transform(field: PartitionField, source: IcebergType) -> None:
    transform = parse_transform(str(field.transform))
    if source.is_primitive and transform.can_transform(source):
        return
    kind = field.transform.kind
    raise BadPartition(
        f"{field}: the column {field.column!r} is {source}, which {kind.value} does not take",
        hint=f"{kind.value} takes {_TAKES[kind]}.",
    )


def _field_name(field: PartitionField, taken: set[str]) -> str:
    kind, width = field.transform.kind, field.transform.width
    if kind is TransformKind.IDENTITY:
        return field.column  # the one name that a field shares with a column: its own
    name = field.column + _SUFFIX.get(kind, f"_{kind.value}")
    candidates = [name] if width is None else [name, f"{name}_{width}"]
    for candidate in candidates:
        if candidate.casefold() not in taken:
            return candidate
    raise BadPartition(
        f"{field}: the partition field would be called {candidates[-1]!r}, and that name is taken",
        hint="Rename the column that has this name.",
    )


def _from_spec_field(field: SpecField, columns: dict[int, str], schema: Schema) -> PartitionField:
    if field.source_id not in columns:
        nested = schema.find_column_name(field.source_id)
        raise BadPartition(
            f"the table's partition field {field.name!r} is made of "
            + (f"the nested field {nested!r}" if nested else f"a dropped column (id {field.source_id})"),
            hint="Replace the field in the table's spec by one over a column of its own.",
        )
    match = _SPELLING.fullmatch(str(field.transform))
    kind, width = match.groups() if match else ("", None)
    if kind not in {known.value for known in TransformKind}:
        raise BadPartition(
            f"the table's partition field {field.name!r} has an unknown transform, {field.transform!r}",
            hint="Use a release that knows it, or replace the field in the table's spec.",
        )
    transform = Transform(TransformKind(kind), int(width) if width else None)
    return PartitionField(columns[field.source_id], transform)


def _to_order_field(field: SortField, schema: Schema) -> OrderField:
    column = _column(field.column, schema, str(field), "sorted")
    if not column.field_type.is_primitive:
        raise BadPartition(
            f"{field}: the column {field.column!r} is {column.field_type}, and nested values have no order",
            hint="Sort by a column that is not nested.",
        )
    return OrderField(
        source_id=column.field_id,
        transform=IdentityTransform(),
        direction=SortDirection.DESC if field.descending else SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST,
    )
