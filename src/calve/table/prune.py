"""Prune: which manifests and data files may hold a row that a condition is true of, by metadata alone.

    condition ─┬─ projected to the partitions of each spec ─▶ a manifest's summary, a file's own partition
               └─ as it is ────────────────────────────────▶ the bounds and counts of a file's columns

Guarantee: a file is left out only if the condition is false, or unknown, of each of its rows. Whatever is not
known keeps a file: no bounds, bounds of another width than the column's, a spec whose source is gone.

The projection and the evaluation are PyIceberg's. Columns go by their ids, under names that no person gave:
one that was renamed is found, and one whose name was used before is not taken for it. What a column may be is
said here (`may_prune`): no floats, because bounds leave out NaN, which an engine orders and compares; none
with a default, because metadata says nothing of it for files that lack the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    LiteralPredicate,
    Not,
    Or,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import (
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
    rewrite_not,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from calve.table.lists import ManifestRecord
from calve.table.live import LiveFile
from calve.table.overlap import comparable

_LITERALS: Mapping[type[IcebergType], Any] = {
    BooleanType: BooleanLiteral,
    IntegerType: LongLiteral,
    LongType: LongLiteral,
    DateType: DateLiteral,
    TimestampType: TimestampLiteral,
    TimestamptzType: TimestampLiteral,
    StringType: StringLiteral,
    DecimalType: DecimalLiteral,
}
_TIMES = (DateType, TimestampType, TimestamptzType)
_BYTES: Mapping[type[IcebergType], int] = {
    IntegerType: 4,
    DateType: 4,
    LongType: 8,
    TimestampType: 8,
    TimestamptzType: 8,
}


# ---------------------------------------------------------------- conditions


def may_prune(field: NestedField) -> bool:
    """Whether a condition may speak of a column of the row."""
    return type(field.field_type) in _LITERALS and field.initial_default is None


def term(field: NestedField) -> Reference:
    """A column in a condition."""
    return Reference(_name(field.field_id))


def literal_of(field: NestedField, value: Any) -> Literal[Any] | None:
    """A value of a column: days and microseconds as numbers. `None` if it is none of the column's."""
    kind = field.field_type
    if isinstance(kind, DecimalType) and value.as_tuple().exponent != -kind.scale:
        return None
    made: Literal[Any] = _LITERALS[type(kind)](value)
    return made


def _name(field_id: int) -> str:
    return f"c{field_id}"


def _leaves(condition: BooleanExpression) -> Iterator[UnboundPredicate]:
    match condition:
        case And() | Or():
            yield from _leaves(condition.left)
            yield from _leaves(condition.right)
        case Not():
            yield from _leaves(condition.child)
        case UnboundPredicate():
            yield condition


def _values(leaf: UnboundPredicate) -> Sequence[Any]:
    if isinstance(leaf, LiteralPredicate):
        return [leaf.literal.value]
    return [one.value for one in leaf.literals] if isinstance(leaf, SetPredicate) else []


# ---------------------------------------------------------------- what may hold a row


class Pruner:
    """A condition, for the files of a table."""

    def __init__(self, metadata: TableMetadata, schema: Schema, condition: BooleanExpression) -> None:
        leaves = list(_leaves(condition))
        names = {leaf.term.name for leaf in leaves if isinstance(leaf.term, Reference)}
        fields = {one.field_id: one for one in schema.fields if _name(one.field_id) in names}
        self._kinds = {id_: one.field_type for id_, one in fields.items()}
        known = Schema(*(NestedField(id_, _name(id_), kind, False) for id_, kind in self._kinds.items()))
        early = {
            leaf.term.name
            for leaf in leaves
            if isinstance(leaf.term, Reference) and any(_is_early(value) for value in _values(leaf))
        }
        times = {id_ for id_, kind in self._kinds.items() if isinstance(kind, _TIMES) and _name(id_) in early}
        self._metrics = _InclusiveMetricsEvaluator(known, condition, include_empty_files=True)
        specs = metadata.specs()
        self._spec = lru_cache(None)(lambda id_: _Partitioned(specs[id_], known, condition, times))

    def needs_bounds(self, spec_id: int) -> bool:
        """Whether bounds of columns can say more than partitions of a spec."""
        return not self._spec(spec_id).identities >= self._kinds.keys()

    def keeps_manifest(self, manifest: ManifestRecord) -> bool:
        """Whether a file of a manifest may hold such a row."""
        return self._spec(manifest["partition_spec_id"]).keeps_manifest(manifest["partitions"])

    def keeps(self, file: LiveFile) -> bool:
        """Whether a data file may hold such a row, whose partition is known."""
        if not self._spec(file.spec_id).keeps(file.scope[1]):
            return False
        measures: Any = _Measures(
            file.records,
            dict.fromkeys(file.nulls, file.records),
            file.nulls,
            {},
            self._bounds(file.lower),
            self._bounds(file.upper),
        )
        return bool(self._metrics.eval(measures))

    def _bounds(self, bounds: Mapping[int, bytes]) -> dict[int, bytes]:
        found = {id_: _bound(bounds.get(id_), kind) for id_, kind in self._kinds.items()}
        return {id_: bound for id_, bound in found.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class _Measures:
    """Of a data file, as PyIceberg asks for them. A column has as many values as there are rows."""

    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class _Summary:
    """Of a field of partitions."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class _Summaries:
    partitions: list[_Summary]


class _Partitioned:
    """A condition, for the partitions of a spec."""

    def __init__(
        self, spec: PartitionSpec, known: Schema, condition: BooleanExpression, early: set[int]
    ) -> None:
        sources = {one.field_id for one in known.fields}
        usable = [
            (place, one)
            for place, one in enumerate(spec.fields)
            if one.source_id in sources
            and not isinstance(one.transform, VoidTransform | UnknownTransform)
            # Early releases of Iceberg put times before 1970 into the partition after their own.
            and not (isinstance(one.transform, TimeTransform) and one.source_id in early)
        ]
        self.identities = {one.source_id for _, one in usable if isinstance(one.transform, IdentityTransform)}
        self._fields = len(spec.fields)
        self._places = [place for place, _ in usable]
        self._transforms = [one.transform for _, one in usable]
        own = PartitionSpec(
            *(
                PartitionField(one.source_id, one.field_id, one.transform, f"p{one.field_id}")
                for _, one in usable
            )
        )
        struct = own.partition_type(known)
        self._kinds = [one.field_type for one in struct.fields]
        projected = inclusive_projection(known, own)(rewrite_not(condition))
        self._of_manifest: Any = manifest_evaluator(own, known, projected)
        self._of_file = expression_evaluator(Schema(*struct.fields), projected, case_sensitive=True)

    def keeps_manifest(self, summaries: Sequence[Mapping[str, Any]] | None) -> bool:
        if not self._places or not summaries or len(summaries) != self._fields:
            return True
        found = []
        for place, kind, transform in zip(self._places, self._kinds, self._transforms, strict=True):
            one = summaries[place]
            bounds = [one.get("lower_bound"), one.get("upper_bound")]
            read = [_bound(bound, kind) for bound in bounds]
            if any(bound is not None and known is None for bound, known in zip(bounds, read, strict=True)):
                return True
            if None in read and not one["contains_null"]:
                return True  # that none has a value is said by no bounds, and by nulls
            if _is_wrapped(comparable(read[1], kind), transform):
                return True
            found.append(_Summary(one["contains_null"], one.get("contains_nan"), read[0], read[1]))
        return bool(self._of_manifest(_Summaries(found)))

    def keeps(self, partition: Sequence[Any]) -> bool:
        if not self._places:
            return True
        values = [partition[place] for place in self._places]
        if any(map(_is_wrapped, values, self._transforms)):
            return True
        return bool(self._of_file(Record(*map(_value, values, self._kinds))))


def _is_early(value: Any) -> bool:
    return isinstance(value, int) and value <= 0


def _is_wrapped(value: Any, transform: Transform[Any, Any]) -> bool:
    """Whether the least numbers are in a partition: cut down they would be less than the least, and writers
    take what is left of them for a great one."""
    if not isinstance(transform, TruncateTransform) or not isinstance(value, int):
        return False
    return value % transform.width != 0


def _value(value: Any, kind: IcebergType) -> Any:
    """A value of a partition as PyIceberg compares it; it comes as Avro holds it, a decimal as its digits."""
    if value is None or not isinstance(kind, DecimalType):
        return value
    return unscaled_to_decimal(value, kind.scale)


def _bound(bound: bytes | None, kind: IcebergType) -> bytes | None:
    """A bound as wide as its column is now; `None` where it is not one of such a column."""
    value = comparable(bound, kind)
    if isinstance(kind, StringType) and value is not None:
        try:
            value.decode()
        except UnicodeDecodeError:
            return None
    width = _BYTES.get(type(kind))
    if value is None or width is None:
        return None if value is None else bound
    return value.to_bytes(width, "little", signed=True) if value.bit_length() < 8 * width else None
