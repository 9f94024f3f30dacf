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

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import ConfigError

_NATIVE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
_TEXT = {"date": pa.date32(), "time": pa.int64(), "uuid": pa.binary(), "binary": pa.binary()}


@dataclass(frozen=True, slots=True)
class Carrier:
    """A column's name and types."""

    name: str
    type: str
    """In Iceberg's notation."""
    arrow: pa.DataType
    """As it goes to Spark."""
    json: pa.DataType | None
    """As a parser of JSON may read it; `None` where none can."""

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    def finish(self, array: pa.Array) -> pa.Array:
        """A column as the parser read it, as it goes to Spark."""
        found = _FINISH[self.type](array) if self.type in _FINISH else array
        return found if found.type == self.arrow else pc.cast(found, self.arrow)


def carrier(name: str, text: str) -> Carrier:
    """How a column of a type in Iceberg's notation is carried."""
    if text in _TEXT:
        return Carrier(name, text, _TEXT[text], pa.string())
    arrow = arrow_type(text)
    return Carrier(name, text, arrow, None if _is_slow(arrow) else arrow)


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a type inside others; `uuid` and `time` are text there."""
    kind, rest = _Types(text).read()
    if rest:
        raise _no_type(text)
    return kind


class _Types:
    """Reads types off the front of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = text.strip()

    def read(self) -> tuple[pa.DataType, str]:
        name = self._until("<>(,")
        if name in _NATIVE:
            return _NATIVE[name], self._rest
        if name in ("uuid", "time"):
            return pa.string(), self._rest
        if name in _TEXT:
            return _TEXT[name], self._rest
        if name == "decimal" and self._rest.startswith("("):
            numbers, _, self._rest = self._rest[1:].partition(")")
            precision, _, scale = numbers.partition(",")
            return pa.decimal128(int(precision), int(scale or 0)), self._rest.lstrip()
        if name == "list":
            (element,) = self._inside(1)
            return pa.list_(element), self._rest
        if name == "map":
            key, value = self._inside(2)
            return pa.map_(key, value), self._rest
        if name == "struct":
            return pa.struct(self._fields()), self._rest
        raise _no_type(self._text)

    def _until(self, ends: str) -> str:
        length = next((at for at, one in enumerate(self._rest) if one in ends), len(self._rest))
        name, self._rest = self._rest[:length].strip(), self._rest[length:]
        return name

    def _take(self, mark: str) -> None:
        if not self._rest.startswith(mark):
            raise _no_type(self._text)
        self._rest = self._rest[1:].lstrip()

    def _inside(self, count: int) -> list[pa.DataType]:
        found = []
        for number in range(count):
            self._take("," if number else "<")
            found.append(self.read()[0])
        self._take(">")
        return found

    def _fields(self) -> list[pa.Field]:
        found: list[pa.Field] = []
        self._take("<")
        while not self._rest.startswith(">"):
            if found:
                self._take(",")
            name = self._until(":<>,")
            self._take(":")
            found.append(pa.field(name, self.read()[0]))
        self._take(">")
        return found


def _no_type(text: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is no type in Iceberg's notation",
        hint="Types are boolean, int, long, float, double, decimal(p,s), date, time, timestamp, timestamptz, "
        "string, uuid, binary, list<T>, map<K,V>, struct<a: T, b: T>.",
    )


def _is_slow(kind: pa.DataType) -> bool:
    """Whether a type is, or holds, what Arrow's parser of JSON cannot read."""
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    here = pa.types.is_map(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind)
    return here or any(map(_is_slow, inner))


def _date(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.date32())


def _time(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type) or pa.types.is_time(array.type):
        return pc.cast(array, pa.int64())
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
