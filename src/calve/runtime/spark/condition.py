"""Conditions: what Spark makes of a filter that a person wrote, as far as metadata can be asked about it.

    where ─▶ Spark's own analysis, of no rows ─▶ its optimizer ─▶ a column and a value ─▶ Iceberg's condition
                  └─ what is wrong with it             └─ all else: every file is read

Spark reads the words, casts and folds: what a literal means is said by the engine that filters in the end.
Taken over is only what says the same in both: a bare column against a value of the column's very own type, in
Spark's own numbers for days and microseconds. What is not taken over prunes nothing: of an AND one side is
enough, of an OR both are needed, and only what is exact is negated.

A filter that says something else at another time (`now()`, `rand()`) prunes nothing at all: the frame is
asked later than it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Schema
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
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from calve.config.types.notation import show_place
from calve.model.errors import BadStatement, ConfigError
from calve.runtime.spark.query import parsed_to, place_of, quiet_logs, words
from calve.runtime.spark.shapes import shown_field
from calve.runtime.spark.view import CLOCKS
from calve.table.prune import literal_of, may_prune, term

_TYPES: Mapping[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "bigint",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
}
_COMPARISONS: Mapping[str, tuple[type[Any], type[Any]]] = {
    "EqualTo": (EqualTo, EqualTo),
    "EqualNullSafe": (EqualTo, EqualTo),
    "LessThan": (LessThan, GreaterThan),
    "LessThanOrEqual": (LessThanOrEqual, GreaterThanOrEqual),
    "GreaterThan": (GreaterThan, LessThan),
    "GreaterThanOrEqual": (GreaterThanOrEqual, LessThanOrEqual),
}
"""Of a column with a value, and of a value with a column."""
_NEGATED = ("AttributeReference", "EqualTo", "In", "InSet")
_VALUES_MAX = 200
"""Of a list: PyIceberg compares no more with bounds."""


def condition_of(spark: SparkSession, schema: Schema, where: str) -> BooleanExpression | None:
    """What is true of each row that a filter keeps; `None` if nothing is known of it."""
    if not isinstance(where, str):
        raise ConfigError(
            f"where cannot be a {type(where).__name__}",
            hint="Give it as text, as Spark's SQL has it: where=\"day = DATE '2026-11-17'\".",
        )
    rows = T.StructType([shown_field(one) for one in schema.fields])
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), rows)
    query = _filtered(nothing, where)._jdf.queryExecution()
    plan = query.analyzed()
    if _kind(plan) != "Filter" or not _says_the_same(plan.condition()):
        return None
    return _of_plan(query.optimizedPlan(), _Reader(schema))


def _filtered(frame: DataFrame, where: str) -> DataFrame:
    try:
        with quiet_logs():
            return frame.where(where)
    except ParseException as error:
        said, _, _ = words(error)
        raise BadStatement(
            f"where= cannot be read: {said}{show_place(where, parsed_to(where, error))}",
            hint="It is a condition in Spark's SQL; names with other marks stand in `backticks`.",
        ) from None
    except AnalysisException as error:
        said, _, _ = words(error)
        raise BadStatement(
            f"where= cannot be understood: {said}{show_place(where, place_of(error) or 0)}",
            hint="It may name the columns of the table, and Spark's functions.",
        ) from None


def _says_the_same(expression: Any) -> bool:
    """Whether an expression says the same of a row at any time."""
    if expression.getClass().getSimpleName() in CLOCKS or not expression.deterministic():
        return False
    return all(map(_says_the_same, _each(expression.children())))


def _of_plan(plan: Any, reader: _Reader) -> BooleanExpression | None:
    """The filters of a plan that is nothing but filters; a subquery makes it another."""
    found: BooleanExpression | None = None
    while (kind := _kind(plan)) == "Filter":
        found = _and(reader.read(plan.condition()), found)
        plan = plan.child()
    return found if kind == "LogicalRDD" else None


@dataclass(frozen=True)
class _Reader:
    """Turns Spark's expressions over the columns of a schema into Iceberg's."""

    schema: Schema

    def read(self, expression: Any) -> BooleanExpression | None:
        """What follows from an expression; `None` if nothing does that is known here."""
        match _kind(expression):
            case "And":
                return _and(self.read(expression.left()), self.read(expression.right()))
            case "Or":
                left, right = self.read(expression.left()), self.read(expression.right())
                return None if left is None or right is None else Or(left, right)
            case "Not":
                child = expression.child()
                exact = self._leaf(child) if _kind(child) in _NEGATED else None
                return None if exact is None else Not(exact)
        return self._leaf(expression)

    def _leaf(self, expression: Any) -> BooleanExpression | None:
        """What says the same as an expression without parts."""
        match _kind(expression):
            case "AttributeReference":
                field = self._column(expression)
                return None if field is None else _made(EqualTo, field, literal_of(field, True))
            case "IsNull" | "IsNotNull" as kind:
                field = self._column(expression.child())
                if field is None:
                    return None
                return _made(IsNull if kind == "IsNull" else NotNull, field)
            case "StartsWith":
                return self._compared(StartsWith, expression.left(), expression.right())
            case "In":
                return self._in(expression.value(), _each(expression.list()), literals=True)
            case "InSet":
                return self._in(expression.child(), _each(expression.hset().toSeq()), literals=False)
            case kind if kind in _COMPARISONS:
                straight, turned = _COMPARISONS[kind]
                left, right = expression.left(), expression.right()
                return self._compared(straight, left, right) or self._compared(turned, right, left)
        return None

    def _compared(self, made: type[Any], column: Any, value: Any) -> BooleanExpression | None:
        field = self._column(column)
        if field is None or (known := _literal(field, value)) is None:
            return None
        return _made(made, field, known)

    def _in(self, column: Any, values: list[Any], *, literals: bool) -> BooleanExpression | None:
        field = self._column(column)
        if field is None or not 0 < len(values) <= _VALUES_MAX:
            return None
        read = _literal if literals else _of_value
        known = [read(field, one) for one in values]
        return None if None in known else _made(In, field, known)

    def _column(self, expression: Any) -> NestedField | None:
        """The column that an expression is, if it may prune. Spark has looked its name up: where that is not
        the column's own, letters differ in their case alone."""
        if _kind(expression) != "AttributeReference":
            return None
        name = expression.name()
        fields = [one for one in self.schema.fields if one.name == name] or [
            one for one in self.schema.fields if one.name.casefold() == name.casefold()
        ]
        if len(fields) != 1 or not may_prune(fields[0]):
            return None
        return fields[0] if expression.dataType().catalogString() == _type(fields[0]) else None


def _made(kind: Any, field: NestedField, *values: Any) -> BooleanExpression:
    made: BooleanExpression = kind(term(field), *values)
    return made


def _literal(field: NestedField, expression: Any) -> Literal[Any] | None:
    if _kind(expression) != "Literal" or expression.dataType().catalogString() != _type(field):
        return None
    return _of_value(field, expression.value())


def _of_value(field: NestedField, value: Any) -> Literal[Any] | None:
    """A value as Spark holds it."""
    if value is None:
        return None
    match field.field_type:
        case StringType():
            try:
                return literal_of(field, bytes(value.getBytes()).decode())
            except UnicodeDecodeError:
                return None
        case DecimalType():
            return literal_of(field, value.toJavaBigDecimal())
    return literal_of(field, value)


def _type(field: NestedField) -> str:
    kind = field.field_type
    return f"decimal({kind.precision},{kind.scale})" if isinstance(kind, DecimalType) else _TYPES[type(kind)]


def _and(left: BooleanExpression | None, right: BooleanExpression | None) -> BooleanExpression | None:
    return And(left, right) if left is not None and right is not None else left or right


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _each(parts: Any) -> list[Any]:
    """The parts of a Scala sequence."""
    return [parts.apply(place) for place in range(parts.size())]
