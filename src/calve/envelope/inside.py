"""Inside: values in lists, maps and structs, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from calve.config.types import List, Map, Struct, Type

Sign = Callable[[Type, Column], Column | None]
"""Whether a value that has none inside has a sign; `None` where no value of its type can."""


def holds(kind: Type, wanted: Callable[[Type], bool]) -> bool:
    """Whether a type is wanted, or holds one that is."""
    match kind:
        case List(element):
            return holds(element, wanted)
        case Map(_, value):
            return holds(value, wanted)
        case Struct(fields):
            return any(holds(inner, wanted) for _, inner in fields)
    return wanted(kind)


def has(kind: Type, value: Column, sign: Sign) -> Column:
    """Whether a value, or one inside of it, has a sign; it may be null, which is no."""
    if not holds(kind, lambda one: sign(one, value) is not None):
        return F.lit(False)
    match kind:
        case List(element):
            return F.exists(value, lambda one: _surely(element, one, sign))
        case Map(_, inner):
            return F.exists(F.map_values(value), lambda one: _surely(inner, one, sign))
        case Struct(fields):
            return reduce(
                Column.__or__, (_surely(inner, value.getField(name), sign) for name, inner in fields)
            )
    found = sign(kind, value)
    return F.lit(False) if found is None else found


def _surely(kind: Type, value: Column, sign: Sign) -> Column:
    return F.coalesce(has(kind, value, sign), F.lit(False))
