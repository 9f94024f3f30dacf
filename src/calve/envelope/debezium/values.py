"""Values: what a field of a message is as a column of the table, in Spark expressions.

    message ──parsed as wire_type──▶ raw ──value──▶ the column, or null where nothing can be made of it

What has a value and becomes null is an error of the row; the one exception is `infinity`, where the user says
so. The same expressions serve JSON and Avro: the two differ in bytes alone, which are base64 in JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.types import Decimal, List, Map, Plain, Struct, Type
from calve.envelope.debezium import decimals, schema, times
from calve.envelope.debezium.schema import Field
from calve.envelope.messages import let
from calve.envelope.types import spark_type
from calve.envelope.values import real

_WIRE: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int8": T.IntegerType(),
    "int16": T.IntegerType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
}
_NUMBERS: dict[str, T.DataType] = {
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
}
_VARIABLE = T.StructType([T.StructField("value", T.StringType()), T.StructField("scale", T.IntegerType())])
_INFINITE = ("infinity", "-infinity")


@dataclass(frozen=True, slots=True)
class Values:
    """How values come and what is made of them."""

    text: bool
    """In JSON: bytes are base64."""
    utc: bool
    """The session's zone is UTC."""
    infinity_is_null: bool = False

    # ---------------------------------------------------------------- as it comes

    def wire_type(self, field: Field, target: Type) -> T.DataType:
        """What a field is parsed as."""
        if self.text and (isinstance(target, Decimal) or _is_text(field, target)):
            return T.StringType()
        match field.kind:
            case "bytes":
                return T.StringType() if self.text else T.BinaryType()
            case "array":
                inner = target.element if isinstance(target, List) else field.inside[0].type()
                return T.ArrayType(self.wire_type(field.inside[0], inner))
            case "map":
                inner = target.value if isinstance(target, Map) else field.inside[1].type()
                return T.MapType(T.StringType(), self.wire_type(field.inside[1], inner))
            case "struct":
                kinds = dict(target.fields) if isinstance(target, Struct) else {}
                return T.StructType(
                    [
                        T.StructField(one.name, self.wire_type(one, kinds.get(one.name) or one.type()))
                        for one in field.inside
                    ]
                )
        return _WIRE[field.kind]

    # ---------------------------------------------------------------- as a column

    def column(self, field: Field, target: Type, raw: Column, prepared: Column | None = None) -> Column:
        """A column of the table, from its value and what was made of it before."""
        match target:
            case Decimal():
                return self._decimal(field, target, raw, prepared)
            case Plain("uuid"):
                digits = F.replace(raw, F.lit("-"), F.lit(""))
                return F.when(F.length(digits) == 32, F.unhex(digits))
            case Plain("time"):
                return times.time(field, raw)
        if self._is_plain(field, target) and self.wire_type(field, target) == spark_type(str(target)):
            return raw
        return self._value(field, target, raw)

    def is_wrong(self, field: Field, target: Type, raw: Column, made: Column) -> Column | None:
        """Whether a value could not be read; `None` where it always can."""
        if self._is_plain(field, target):
            return None
        wrong = raw.isNotNull() & made.isNull()
        if not self.infinity_is_null:
            return wrong
        if field.meaning in (*schema.DATES, *schema.TIMESTAMPS):
            return None
        if field.meaning in (schema.ISO_DATE, schema.ISO_TIMESTAMP, schema.ZONED_TIMESTAMP):
            return wrong & ~raw.isin(*_INFINITE)
        return wrong

    def _is_plain(self, field: Field, target: Type) -> bool:
        """Whether what was parsed is what the column holds."""
        if isinstance(target, Plain):
            if target.name in ("boolean", "string") or (target.name == "binary" and not self.text):
                return field.meaning not in (schema.DECIMAL, schema.VARIABLE_DECIMAL)
            if target.name in _NUMBERS:
                return field.kind in _WIRE and field.kind != "string"
        if isinstance(target, List):
            return self._is_plain(field.inside[0], target.element)
        if isinstance(target, Map):
            return self._is_plain(field.inside[1], target.value)
        if isinstance(target, Struct):
            inside = {one.name: one for one in field.inside}
            return all(name in inside and self._is_plain(inside[name], kind) for name, kind in target.fields)
        return False

    def _value(self, field: Field, target: Type, raw: Column) -> Column:
        match target:
            case Decimal():
                return self._decimal(field, target, raw)
            case List(element):
                return self._all(raw, lambda one: self._nested(field.inside[0], element, one), field, element)
            case Map(_, value):
                made = F.transform_values(raw, lambda _, one: self._nested(field.inside[1], value, one))
                lost = F.exists(F.map_values(made), Column.isNull) & ~F.exists(
                    F.map_values(raw), Column.isNull
                )
                return F.when(~lost, made)
            case Struct(fields):
                return self._struct(field, fields, raw)
            case Plain(name):
                return self._plain(field, name, raw)

    def _nested(self, field: Field, target: Type, raw: Column) -> Column:
        """A value inside of another: there a uuid and a time of day are text."""
        match target:
            case Plain("uuid"):
                return raw
            case Plain("time"):
                return times.clock(times.time(field, raw))
        return self._value(field, target, raw)

    def _all(self, raw: Column, made: Callable[[Column], Column], field: Field, element: Type) -> Column:
        if self._is_plain(field.inside[0], element):
            return F.transform(raw, made)
        lost = F.exists(raw, lambda one: one.isNotNull() & made(one).isNull())
        return F.when(~lost, F.transform(raw, made))

    def _struct(self, field: Field, fields: tuple[tuple[str, Type], ...], raw: Column) -> Column:
        inside = {one.name: one for one in field.inside}
        columns, lost = [], F.lit(False)
        for name, kind in fields:
            if (one := inside.get(name)) is None:
                columns.append(F.lit(None).cast(T.NullType()).alias(name))
                continue
            made = self._nested(one, kind, raw.getField(name))
            columns.append(made.alias(name))
            lost = lost | (raw.getField(name).isNotNull() & made.isNull())
        return F.when(raw.isNotNull() & ~lost, F.struct(*columns))

    def _plain(self, field: Field, name: str, raw: Column) -> Column:
        match name:
            case "date":
                return times.date(field, raw)
            case "timestamp" | "timestamptz":
                return times.timestamp(field, raw, zoned=name == "timestamptz", utc=self.utc)
            case "binary":
                return self._bytes(raw)
            case "string":
                return self._string(field, raw)
            case "float" | "double" if field.kind == "string":
                return real(raw, name)
        return raw.try_cast(_NUMBERS[name])

    def _string(self, field: Field, raw: Column) -> Column:
        if field.meaning == schema.VARIABLE_DECIMAL:
            return self._variable(raw)
        if field.meaning == schema.DECIMAL:
            return self._told(raw, F.lit(field.scale))
        if field.kind in ("struct", "array", "map") and not self.text:
            return F.to_json(raw)
        return raw.cast("string")

    def prepared(self, field: Field, target: Type, raw: Column) -> Column | None:
        """What a column is made of, where it is used several times; `None`: of the value itself."""
        if isinstance(target, Decimal) and field.meaning in (schema.DECIMAL, schema.ANY_DECIMAL):
            return decimals.hexadecimal(self._bytes(self._either(field, raw)))
        return None

    def _either(self, field: Field, raw: Column) -> Column:
        """The bytes of a decimal, which may stand in an object beside their scale."""
        if field.meaning == schema.DECIMAL:
            return raw
        return F.when(raw.startswith("{"), F.get_json_object(raw, "$.value")).otherwise(raw)

    def _decimal(self, field: Field, target: Decimal, raw: Column, digits: Column | None = None) -> Column:
        match field.meaning:
            case schema.DECIMAL | schema.ANY_DECIMAL:
                if digits is None:
                    return let(
                        decimals.hexadecimal(self._bytes(self._either(field, raw))),
                        lambda one: self._decimal(field, target, raw, one),
                    )
                fixed = decimals.from_digits(digits, field.scale, target)
                if field.meaning == schema.DECIMAL:
                    return fixed
                scale = F.get_json_object(raw, "$.scale").try_cast("int")
                own = decimals.with_own_scale(digits, scale, target)
                return F.when(raw.startswith("{"), own).otherwise(fixed)
            case schema.VARIABLE_DECIMAL:
                return decimals.from_text(self._variable(raw), target)
        return decimals.from_text(raw.cast("string"), target)

    def _bytes(self, raw: Column) -> Column:
        return F.try_to_binary(raw, F.lit("base64")) if self.text else raw

    def _variable(self, raw: Column) -> Column:
        """The text of a decimal that brings its scale along."""
        value, scale = raw.getField("value"), raw.getField("scale")
        if self.text:
            told = F.from_json(raw, _VARIABLE)
            return let(told, lambda one: self._told(one["value"], one["scale"]))
        return self._told(value, scale)

    def _told(self, value: Column, scale: Column) -> Column:
        return decimals.text_from_digits(decimals.hexadecimal(self._bytes(value)), scale)


def _is_text(field: Field, target: Type) -> bool:
    """Whether a value of any shape is taken as its JSON text."""
    return field.meaning in (schema.VARIABLE_DECIMAL, schema.ANY_DECIMAL) or target == Plain("string")
