"""Carriers: how a column travels from a file to Spark, by its type in Iceberg's notation.

    text in JSON, value in Parquet ──parsed as──▶ Arrow ──finish──▶ carrier

`uuid` is carried as 16 bytes, `time` as microseconds of the day, the rest natively; inside lists, maps and
structs uuid and time stay text. What CockroachDB writes as text (dates, bytes in hex, …) is made a value by
kernels, a column at a time; what does not fit fails for the whole column, and whoever called looks for the
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.texts import quoted

_EPOCH, _DAY = date(1970, 1, 1).toordinal(), 86_400_000_000
TINY = r"[0-9][eE]-[0-9]{3}"
"""A number that is so small that Arrow makes a decimal of zero."""
JSON = "json"
"""A column of text that was declared as JSON: the one type here that is not Iceberg's."""
_TEXT = ("date", "time", "uuid", "binary")
"""What comes as text, and is made a value here."""


_DAYS = (date(1, 1, 1).toordinal() - _EPOCH, date(9999, 12, 31).toordinal() - _EPOCH)
_MICROSECONDS = (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1)
_YEARS = {
    pa.date32(): _DAYS,
    pa.timestamp("us"): _MICROSECONDS,
    pa.timestamp("us", "UTC"): _MICROSECONDS,
}
"""The first and the last that a table holds."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A column's name and types."""

    name: str
    type: str
    """In Iceberg's notation, or `json`."""
    arrow: pa.DataType
    """As it goes to Spark."""
    json: pa.DataType | None
    """As a parser of JSON may read it; `None` where none can."""

    @property
    def has_decimals(self) -> bool:
        return "decimal" in self.type

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    def read(self, array: pa.Array) -> pa.Array:
        """A column as the parser of JSON read it, as it goes to Spark. Of JSON that reads texts alone."""
        return quoted(array) if self.type == JSON else self.finish(array)

    def finish(self, array: pa.Array) -> pa.Array:
        """A column of values or texts, as it goes to Spark."""
        found = _FINISH[self.type](array) if self.type in _FINISH else array
        if pa.types.is_decimal(self.arrow) and pa.types.is_string(found.type):
            found = _decimal(found, self.arrow)
        found = found if found.type == self.arrow else pc.cast(found, self.arrow)
        _check(found)
        if self.is_float and infinite(found) > infinite(array):
            raise pa.ArrowInvalid("a number that the column does not hold")
        return found


def carrier(name: str, text: str) -> Carrier:
    """How a column of a type in Iceberg's notation is carried. On the driver."""
    from calve.config.types import arrow_type

    if text == JSON:
        return Carrier(name, text, pa.string(), pa.string())
    arrow = arrow_type(text, carried=True)
    if text in _TEXT:
        return Carrier(name, text, arrow, pa.string())
    return Carrier(name, text, arrow, None if _is_slow(arrow) else _parsed(arrow))


def _parsed(kind: pa.DataType) -> pa.DataType:
    """A type as the parser of JSON reads it. Decimals have 76 digits: with fewer it makes other numbers of
    what is too large for them, and says nothing. Timestamps are texts: it would pass over a zone that one
    has, or has not."""
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_parsed(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _parsed(one.type)) for one in kind])
    return kind


def _is_slow(kind: pa.DataType) -> bool:
    """Whether a type is, or holds, what Arrow's parser of JSON cannot read."""
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    here = pa.types.is_map(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind)
    return here or any(map(_is_slow, inner))


def _check(array: pa.Array) -> None:
    """Refuse what Arrow's parsers let pass: years beyond what a table holds."""
    kind = array.type
    if kind in _YEARS:
        found = pc.min_max(array)
        first, last = _YEARS[kind]
        if found["min"].is_valid and not (first <= found["min"].value and found["max"].value <= last):
            raise pa.ArrowInvalid("beyond the years 1 to 9999")
    elif pa.types.is_list(kind):
        _check(array.flatten())
    elif pa.types.is_struct(kind):
        for one in array.flatten():
            _check(one)


def refuse_tiny(texts: pa.Array) -> None:
    """Refuse texts with a number that is so small that Arrow makes a decimal of zero."""
    if pc.any(pc.match_substring_regex(texts, TINY)).as_py():
        raise pa.ArrowInvalid("a power of ten of which Arrow makes zero")


def _decimal(array: pa.Array, kind: pa.DataType) -> pa.Array:
    refuse_tiny(array)
    return pc.cast(array, _parsed(kind))


def infinite(array: pa.Array) -> int:
    """How many floats are infinite, inside of others too. Arrow makes that of numbers that are too large."""
    kind = array.type
    if pa.types.is_floating(kind):
        return pc.sum(pc.is_inf(array)).as_py() or 0
    if pa.types.is_list(kind):
        return infinite(array.flatten())
    return sum(map(infinite, array.flatten())) if pa.types.is_struct(kind) else 0


def _date(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.date32())


def _time(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type) or pa.types.is_time(array.type):
        return pc.cast(array, pa.int64())
    if pc.any(pc.less(pc.binary_length(array), len("12:34:56"))).as_py():
        raise pa.ArrowInvalid("a time of day has its seconds")
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01T"), array, "")
    return pc.cast(pc.cast(moments, pa.timestamp("us")), pa.int64())


def _uuid(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    found = _unhex(pc.replace_substring(array, "-", ""))
    lengths = pc.binary_length(found)
    if pc.any(pc.not_equal(lengths, 16)).as_py():
        raise pa.ArrowInvalid("a uuid has 32 hexadecimal digits")
    return found


def _bytes(array: pa.Array) -> pa.Array:
    """CockroachDB writes bytes as `\\x` and hexadecimal digits."""
    if not pa.types.is_string(array.type):
        return array
    if not pc.all(pc.starts_with(array, "\\x")).as_py() and array.null_count < len(array):
        raise pa.ArrowInvalid("bytes begin with \\x")
    return _unhex(pc.utf8_slice_codeunits(array, 2))


def _unhex(array: pa.Array) -> pa.Array:
    """Hexadecimal digits as bytes. All values of a column lie one behind the other in memory, so that they
    are read in one go, and what was at an offset then is at half of it."""
    array = pa.concat_arrays([array])  # without what a slice leaves around it
    lengths = pc.fill_null(pc.binary_length(array), 0)
    if pc.any(pc.not_equal(pc.bit_wise_and(lengths, pa.scalar(1, lengths.type)), 0)).as_py():
        raise pa.ArrowInvalid("a hexadecimal digit is missing")
    validity, offsets, data = array.buffers()
    at = pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, offsets], offset=array.offset)
    first, last = at[0].as_py(), at[-1].as_py()
    text = b"" if data is None else data.slice(first, last - first).to_pybytes()
    try:
        found = bytes.fromhex(text.decode("ascii"))
    except ValueError as error:
        raise pa.ArrowInvalid("not hexadecimal") from error
    if len(found) * 2 != len(text):
        raise pa.ArrowInvalid("not hexadecimal")  # fromhex passes over blanks
    halves = pc.cast(pc.shift_right(pc.subtract(at, first), pa.scalar(1, pa.int32())), pa.int32())
    if array.null_count and array.offset:
        validity = pc.is_valid(array).buffers()[1]
    buffers = [validity if array.null_count else None, halves.buffers()[1], pa.py_buffer(found)]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


_FINISH: dict[str, Callable[[pa.Array], pa.Array]] = {
    "date": _date,
    "time": _time,
    "uuid": _uuid,
    "binary": _bytes,
}
