"""Files that a condition leaves out hold no row that it is true of, however they are partitioned."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from calve.table.live import FileContent, LiveFile
from calve.table.prune import Pruner, literal_of, may_prune, term

E: Any = expressions
DAY = 86_400_000_000
COLUMNS: dict[NestedField, tuple[Any, ...]] = {
    NestedField(1, "id", LongType()): (-(2**40), -11, -1, 0, 3, 10, 19, 2**40),
    NestedField(2, "n", IntegerType()): (-(2**31), -10, 0, 1, 9, 10, 2**31 - 1),
    NestedField(3, "s", StringType()): (
        "",
        "a",
        "ab",
        "abc",
        "abd",
        "é",
        "日本",
        "\U0010ffff",
        "\uffff",
        "zzz",
    ),
    NestedField(4, "d", DateType()): (-400, -1, 0, 1, 30, 31, 365, 20_000),
    NestedField(5, "at", TimestampType()): (-DAY - 1, -1, 0, 1, DAY - 1, DAY, 40 * DAY, 20_000 * DAY),
    NestedField(6, "tz", TimestamptzType()): (-1, 0, 3_600_000_000, DAY + 5, 700 * DAY),
    NestedField(7, "price", DecimalType(9, 2)): tuple(
        map(Decimal, ("-10.01", "-0.01", "0.00", "9.99", "77.70"))
    ),
    NestedField(8, "ok", BooleanType()): (False, True),
}
FIELDS = list(COLUMNS)
SCHEMA = Schema(*FIELDS)
SPECS = (
    (),
    ((1, "identity"),),
    ((5, "day"), (3, "truncate[2]")),
    ((1, "bucket[4]"), (8, "identity")),
    ((2, "truncate[10]"), (7, "truncate[50]")),
    ((3, "bucket[3]"), (7, "bucket[3]"), (4, "bucket[2]")),
    ((4, "month"), (6, "hour")),
    ((3, "identity"), (7, "identity"), (4, "identity")),
    ((5, "year"), (2, "void")),
    ((6, "identity"), (5, "bucket[5]")),
)
Row = tuple[Any, ...]
Truth = Callable[[Row], bool | None]


def metadata() -> TableMetadata:
    specs = [
        PartitionSpec(
            *(
                PartitionField(source, 1000 + 10 * id_ + place, parse_transform(transform), f"x{place}")
                for place, (source, transform) in enumerate(fields)
            ),
            spec_id=id_,
        )
        for id_, fields in enumerate(SPECS)
    ]
    made = new_table_metadata(SCHEMA, specs[0], UNSORTED_SORT_ORDER, "file:///t")
    return made.model_copy(update={"partition_specs": specs})


METADATA = metadata()


def partition_of(spec: PartitionSpec, row: Row) -> tuple[Any, ...]:
    """As writers have it, also where the least number is cut down, and there is none below it."""
    found = []
    for one in spec.fields:
        kind = SCHEMA.find_type(one.source_id)
        value: Any = one.transform.transform(kind)(row[one.source_id - 1])
        wraps = isinstance(kind, IntegerType) and value is not None
        found.append((value + 2**31) % 2**32 - 2**31 if wraps else value)
    return tuple(found)


def as_avro(value: Any) -> Any:
    return int(value.scaleb(2)) if isinstance(value, Decimal) else value


def files_of(spec: PartitionSpec, rows: Sequence[Row], measured: bool) -> list[LiveFile]:
    parts = defaultdict(list)
    for row in rows:
        parts[partition_of(spec, row)].append(row)
    return [file_of(spec, key, mine, measured) for key, mine in parts.items()]


def file_of(spec: PartitionSpec, key: tuple[Any, ...], rows: Sequence[Row], measured: bool) -> LiveFile:
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    nulls: dict[int, int] = {}
    for field in FIELDS if measured else ():
        values = [row[field.field_id - 1] for row in rows if row[field.field_id - 1] is not None]
        nulls[field.field_id] = len(rows) - len(values)
        if values:
            lower[field.field_id] = bound(field.field_type, min(values), up=False)
            upper[field.field_id] = bound(field.field_type, max(values), up=True)
    scope = (spec.spec_id, tuple(map(as_avro, key)))
    return LiveFile(
        "f", FileContent.DATA, "PARQUET", scope, 1, len(rows), 9, lower=lower, upper=upper, nulls=nulls
    )


def bound(kind: Any, value: Any, *, up: bool) -> bytes:
    """Of texts as they are cut: of this one letter is kept."""
    if isinstance(value, str) and len(value) > 1:
        value = value[0] if not up or value[0] == "\U0010ffff" else chr(ord(value[0]) + 1)
    return to_bytes(kind, value)


def summaries_of(spec: PartitionSpec, files: Sequence[LiveFile]) -> list[dict[str, Any]]:
    found = []
    fields: Any = spec.partition_type(SCHEMA).fields
    for place, one in enumerate(fields):
        values = [file.scope[1][place] for file in files]
        if isinstance(one.field_type, DecimalType):
            values = [None if value is None else Decimal(value).scaleb(-2) for value in values]
        some = [value for value in values if value is not None]
        bounds = [to_bytes(one.field_type, pick(some)) if some else None for pick in (min, max)]
        found.append({"contains_null": None in values, "lower_bound": bounds[0], "upper_bound": bounds[1]})
    return found


# ---------------------------------------------------------------- conditions, and what they say of a row


@st.composite
def leaves(draw: Any) -> tuple[BooleanExpression, Truth]:
    field = draw(st.sampled_from(FIELDS))
    place, name = field.field_id - 1, term(field)
    pick = st.sampled_from(COLUMNS[field])
    kind = draw(st.sampled_from(["=", "!", "<", "<=", ">", ">=", "in", "not in", "null", "some", "starts"]))
    if kind == "null":
        return E.IsNull(name), lambda row: row[place] is None
    if kind == "some":
        return E.NotNull(name), lambda row: row[place] is not None
    if kind in ("in", "not in"):
        values = draw(st.lists(pick, min_size=1, max_size=3))
        inside = E.In(name, [literal_of(field, value) for value in values])
        within = known(place, lambda value: (value in values) == (kind == "in"))
        return (inside if kind == "in" else E.Not(inside)), within
    value = draw(pick)
    if kind == "starts":
        if not isinstance(value, str):
            return E.IsNull(name), lambda row: row[place] is None
        return E.StartsWith(name, literal_of(field, value)), known(place, lambda one: one.startswith(value))
    if kind == "!":
        return E.Not(E.EqualTo(name, literal_of(field, value))), known(place, lambda one: one != value)
    made, compare = {
        "=": (E.EqualTo, operator.eq),
        "<": (E.LessThan, operator.lt),
        "<=": (E.LessThanOrEqual, operator.le),
        ">": (E.GreaterThan, operator.gt),
        ">=": (E.GreaterThanOrEqual, operator.ge),
    }[kind]
    return made(name, literal_of(field, value)), known(place, lambda one: compare(one, value))


def known(place: int, says: Callable[[Any], bool]) -> Truth:
    return lambda row: None if row[place] is None else says(row[place])


def joined(parts: Any) -> Any:
    def both(pair: Any) -> tuple[BooleanExpression, Truth]:
        (left, says), (right, too) = pair
        return E.And(left, right), lambda row: bool(says(row)) and bool(too(row))

    def either(pair: Any) -> tuple[BooleanExpression, Truth]:
        (left, says), (right, too) = pair
        return E.Or(left, right), lambda row: bool(says(row)) or bool(too(row))

    return st.one_of(st.tuples(parts, parts).map(both), st.tuples(parts, parts).map(either))


ROWS = st.tuples(*(st.none() | st.sampled_from(values) for values in COLUMNS.values()))


@settings(max_examples=200)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=6),
    condition=st.recursive(leaves(), joined, max_leaves=4),
    spec_id=st.integers(0, len(SPECS) - 1),
    measured=st.booleans(),
)
def test_a_row_that_a_condition_is_true_of_is_never_in_a_file_or_manifest_that_is_left_out(
    rows: list[Row], condition: tuple[BooleanExpression, Truth], spec_id: int, measured: bool
):
    expression, truth = condition
    spec = METADATA.specs()[spec_id]
    pruner = Pruner(METADATA, SCHEMA, expression)
    parts = defaultdict(list)
    for row in rows:
        parts[partition_of(spec, row)].append(row)
    for key, mine in parts.items():
        file = file_of(spec, key, mine, measured)
        manifest = {"partition_spec_id": spec_id, "partitions": summaries_of(spec, [file])}
        if any(truth(row) for row in mine):
            assert pruner.keeps(file), (expression, file)
            assert pruner.keeps_manifest(manifest), (expression, manifest)
    if any(truth(row) for row in rows):
        files = files_of(spec, rows, measured)
        assert pruner.keeps_manifest({"partition_spec_id": spec_id, "partitions": summaries_of(spec, files)})


# ---------------------------------------------------------------- and what is left out


def row(**values: Any) -> Row:
    return tuple(values.get(field.name) for field in FIELDS)


def column(name: str) -> NestedField:
    return SCHEMA.find_field(name)


def equal(name: str, value: Any) -> BooleanExpression:
    return E.EqualTo(term(column(name)), literal_of(column(name), value))


@pytest.mark.parametrize(
    "spec_id, condition, mine, other",
    [
        (0, equal("s", "abc"), row(s="abc"), row(s="zzz")),
        (1, equal("id", 3), row(id=3), row(id=None)),
        (2, equal("at", 40 * DAY), row(at=40 * DAY), row(at=DAY)),
        (3, equal("id", 3), row(id=3), row(id=10)),
        (4, equal("price", Decimal("9.99")), row(price=Decimal("9.99")), row(price=Decimal("77.70"))),
        (6, E.LessThan(term(column("d")), literal_of(column("d"), 31)), row(d=30), row(d=365)),
        (7, equal("s", "a"), row(s="a"), row(s="ab")),
    ],
)
@pytest.mark.parametrize("measured", [True, False])
def test_a_file_of_other_values_is_left_out(spec_id, condition, mine, other, measured):
    pruner, spec = Pruner(METADATA, SCHEMA, condition), METADATA.specs()[spec_id]
    (kept,), (left,) = files_of(spec, [mine], measured), files_of(spec, [other], measured)
    assert pruner.keeps(kept)
    assert pruner.keeps(left) is not (measured or spec_id > 0)
    if spec_id:
        assert not pruner.keeps_manifest(
            {"partition_spec_id": spec_id, "partitions": summaries_of(spec, [left])}
        )


def test_bounds_are_asked_for_where_partitions_do_not_say_all():
    pruner = Pruner(METADATA, SCHEMA, equal("id", 3))
    assert not pruner.needs_bounds(1)
    assert pruner.needs_bounds(3), "a bucket holds other values, too"
    assert pruner.needs_bounds(0)


def test_bounds_of_a_column_that_was_narrower_are_read_and_those_of_another_kind_are_not():
    (file,) = files_of(METADATA.specs()[0], [row(id=3, at=DAY)], measured=True)
    narrow = replace(file, lower={1: b"\x03\0\0\0"}, upper={1: b"\x03\0\0\0"})
    assert not Pruner(METADATA, SCHEMA, equal("id", 4)).keeps(narrow)
    assert Pruner(METADATA, SCHEMA, equal("id", 3)).keeps(narrow)
    days = replace(file, lower={5: b"\x03\0\0\0"}, upper={5: b"\x03\0\0\0"})
    assert Pruner(METADATA, SCHEMA, equal("at", 9 * DAY)).keeps(days)
    broken = replace(file, nulls={}, lower={3: b"\xff"}, upper={3: b"\xff"})
    assert Pruner(METADATA, SCHEMA, equal("s", "a")).keeps(broken)


def test_a_manifest_that_says_nothing_of_its_partitions_is_kept():
    pruner = Pruner(METADATA, SCHEMA, equal("id", 3))
    for said in (None, [], [{"contains_null": False, "lower_bound": None, "upper_bound": None}]):
        assert pruner.keeps_manifest({"partition_spec_id": 1, "partitions": said})


def test_times_before_1970_are_looked_for_in_the_partition_after_their_own_too():
    """Where early releases of Iceberg put them."""
    (file,) = files_of(METADATA.specs()[2], [row(at=-1, s="a")], measured=False)
    moved = replace(file, scope=(2, (0, "a")))
    for condition in (equal("at", -1), E.LessThan(term(column("at")), literal_of(column("at"), 0))):
        assert Pruner(METADATA, SCHEMA, condition).keeps(moved)


def test_a_partition_whose_column_was_dropped_says_nothing():
    less = Schema(*(field for field in FIELDS if field.name != "s"))
    (file,) = files_of(METADATA.specs()[7], [row(s="a", d=1)], measured=False)
    assert Pruner(METADATA, less, equal("d", 1)).keeps(file)
    assert not Pruner(METADATA, less, equal("d", 2)).keeps(file)


@pytest.mark.parametrize(
    "field, may",
    [
        (NestedField(1, "x", LongType()), True),
        (NestedField(1, "x", LongType(), initial_default=7), False),
        (NestedField(1, "x", DoubleType()), False),
        (NestedField(1, "x", UUIDType()), False),
    ],
)
def test_what_metadata_may_be_asked_about(field: NestedField, may: bool):
    assert may_prune(field) is may
