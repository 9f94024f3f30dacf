"""Avro, decoded in Arrow kernels: all rows of a batch at once, field by field.

    bytes of all messages, end to end ─┐
    a position in them for each row ───┴─▶ a field of every row ─▶ its array, and the positions behind it

A message is a sequence of fields whose lengths vary, so a row has to be read in order; but rows have nothing
to do with each other. So the loop goes over the fields of the schema, and each step reads one of all rows. Of
an optional field those rows are read that have it, and of an array the first element of all, then the second.

Guarantee: a message that is cut, or of another schema, is told by where reading it ends: not at its end.
Nothing outside of the batch is ever read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

HEADER_BYTES = 5
"""A zero and the id of the schema, in four bytes."""
_LONGEST = 10
"""Bytes of a number."""


@dataclass(slots=True)
class Cursor:
    """Where each row is, in the bytes of all, and where it ends."""

    at: pa.Array
    end: pa.Array

    def __len__(self) -> int:
        return len(self.at)

    def some(self, which: pa.Array) -> Cursor:
        return Cursor(self.at.filter(which), self.end.filter(which))

    def come(self, which: pa.Array, other: Cursor) -> None:
        """Go on where some rows have come to."""
        self.at = pc.if_else(which, other.at.take(_places(which)), self.at)


class Decoder:
    """The rows of one schema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._known: dict[str, Any] = {}
        self._name(schema, "")
        self._bytes: pa.Array = pa.array([], pa.uint8())

    def decode(self, values: pa.Array, wanted: pa.StructType) -> tuple[pa.StructArray, pa.Array]:
        """The wanted fields of some messages, and whether each could be read; null where one could not."""
        rows, right = self.read(values, wanted)
        if pc.all(right).as_py():
            return rows, right
        return rows.take(pc.if_else(right, _range(len(right)), None)), right

    def read(self, values: pa.Array, wanted: pa.StructType) -> tuple[pa.StructArray, pa.Array]:
        """The same, and anything where a message could not be read."""
        values = pa.concat_arrays([values.cast(pa.large_binary())])
        offsets = pa.Array.from_buffers(pa.int64(), len(values) + 1, [None, values.buffers()[1]])
        size = offsets[len(values)].as_py()
        content = pa.Array.from_buffers(pa.uint8(), size, [None, values.buffers()[2] or pa.py_buffer(b"")])
        # What is read past the end of a cut message is read from here, at the worst.
        self._bytes = pa.concat_arrays([content, pa.array([0] * _LONGEST, pa.uint8())])
        cursor = Cursor(pc.add(offsets[:-1], HEADER_BYTES), offsets[1:])
        rows = self._read(self._schema, wanted, cursor, "")
        return rows, pc.equal(cursor.at, cursor.end)

    def _name(self, schema: Any, space: str) -> None:
        """Take note of the types that have names: they may be used where none of their rows came before."""
        if isinstance(schema, list):
            for option in schema:
                self._name(option, space)
        elif isinstance(schema, dict):
            if "name" in schema and "type" in schema and schema["type"] in ("record", "enum", "fixed"):
                space = schema.get("namespace", space)
                self._known[schema["name"]] = self._known[f"{space}.{schema['name']}"] = schema
            inside = [schema.get(name) for name in ("type", "items", "values")]
            inside += [field["type"] for field in schema.get("fields", ())]
            for one in inside:
                if not isinstance(one, str):
                    self._name(one, space)

    # ---------------------------------------------------------------- by type

    def _read(self, schema: Any, wanted: pa.DataType | None, cursor: Cursor, space: str) -> Any:
        """A value of every row as an array of the wanted type; nothing where none is wanted."""
        if isinstance(schema, list):
            return self._union(schema, wanted, cursor, space)
        if isinstance(schema, str):
            known = self._known.get(schema) or self._known.get(f"{space}.{schema}")
            if known is not None:
                return self._read(known, wanted, cursor, space)
            schema = {"type": schema}
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self._read(kind, wanted, cursor, space)
        match kind:
            case "record":
                return self._record(schema, wanted, cursor, space)
            case "array":
                return self._array(schema["items"], wanted, cursor, space)
            case "map":
                return self._map(schema["values"], wanted, cursor, space)
        return self._plain(kind, schema, wanted, cursor)

    def _plain(self, kind: str, schema: Mapping[str, Any], wanted: pa.DataType | None, cursor: Cursor) -> Any:
        match kind:
            case "null":
                return _nulls(wanted, len(cursor))
            case "boolean":
                found = pc.equal(self._fixed(cursor, 1), 1)
            case "int" | "long":
                found = self._number(cursor)
            case "float":
                found = self._fixed(cursor, 4).cast(pa.uint32()).view(pa.float32())
            case "double":
                found = self._fixed(cursor, 8).view(pa.float64())
            case "enum":
                number = self._number(cursor)
                names = pa.array(schema["symbols"], pa.string())
                known = pc.and_(pc.greater_equal(number, 0), pc.less(number, len(names)))
                found = names.take(pc.if_else(known, number, None))
            case "fixed":
                return self._run(
                    cursor, pa.repeat(pa.scalar(schema["size"], pa.int64()), len(cursor)), wanted
                )
            case _:
                return self._run(cursor, self._number(cursor), wanted)
        return None if wanted is None else _cast(found, wanted)

    def _union(self, options: list[Any], wanted: pa.DataType | None, cursor: Cursor, space: str) -> Any:
        which = self._number(cursor)
        found = _nulls(wanted, len(cursor))
        for number, option in enumerate(options):
            mine = pc.equal(which, number)
            if option == "null" or not pc.any(mine).as_py():
                continue
            if pc.all(mine).as_py():
                return self._read(option, wanted, cursor, space)
            some = cursor.some(mine)
            part = self._read(option, wanted, some, space)
            cursor.come(mine, some)
            if wanted is not None:
                found = (
                    pc.if_else(mine, part.take(_places(mine)), found)
                    if _is_flat(wanted)
                    else part.take(_places(mine))
                )
        return found

    def _record(self, schema: Any, wanted: pa.DataType | None, cursor: Cursor, space: str) -> Any:
        space = schema.get("namespace", space)
        types = {} if wanted is None else {field.name: field.type for field in wanted}
        found = {
            field["name"]: self._read(field["type"], types.get(field["name"]), cursor, space)
            for field in schema["fields"]
        }
        if wanted is None:
            return None
        arrays = [found.get(name, _nulls(kind, len(cursor))) for name, kind in types.items()]
        return pa.StructArray.from_arrays(arrays, fields=list(wanted))

    # ---------------------------------------------------------------- repeated values

    def _array(self, items: Any, wanted: pa.DataType | None, cursor: Cursor, space: str) -> Any:
        kind = None if wanted is None else wanted.value_type
        rows, parts = self._items(lambda some: self._read(items, kind, some, space), cursor)
        if wanted is None or kind is None:
            return None
        offsets, order = _lists(rows, len(cursor))
        values = pa.concat_arrays([_nulls(kind, 0), *parts]).take(order)
        return pa.ListArray.from_arrays(offsets, values, type=wanted)

    def _map(self, values: Any, wanted: pa.DataType | None, cursor: Cursor, space: str) -> Any:
        kind = None if wanted is None else wanted.item_type
        pair = pa.struct([("key", pa.string()), ("value", kind or pa.null())])

        def read(some: Cursor) -> Any:
            keys = self._run(some, self._number(some), pa.string())
            found = self._read(values, kind, some, space)
            return pa.StructArray.from_arrays([keys, found or pa.nulls(len(some))], fields=list(pair))

        rows, parts = self._items(read, cursor)
        if wanted is None:
            return None
        offsets, order = _lists(rows, len(cursor))
        pairs = pa.concat_arrays([_nulls(pair, 0), *parts]).take(order)
        keys, items = (pc.struct_field(pairs, number) for number in (0, 1))
        return pa.MapArray.from_arrays(offsets, keys, items).cast(wanted)

    def _items(self, read: Any, cursor: Cursor) -> tuple[list[pa.Array], list[pa.Array]]:
        """The elements of all rows: the first of each, the second of each …; and of which rows they are."""
        rows: list[pa.Array] = []
        parts: list[pa.Array] = []
        left = pa.repeat(pa.scalar(0, pa.int64()), len(cursor))
        begins = pa.repeat(pa.scalar(True), len(cursor))
        numbers = _range(len(cursor))
        while True:
            if pc.any(begins).as_py():
                some = cursor.some(begins)
                count = self._block(some)
                cursor.come(begins, some)
                left = pc.if_else(begins, count.take(_places(begins)), left)
            mine = pc.greater(left, 0)
            if not pc.any(mine).as_py():
                return rows, parts
            some = cursor.some(mine)
            parts.append(read(some))
            rows.append(numbers.filter(mine))
            cursor.come(mine, some)
            left = pc.if_else(mine, pc.subtract(left, 1), left)
            begins = pc.and_(mine, pc.equal(left, 0))

    def _block(self, cursor: Cursor) -> pa.Array:
        """How many elements follow; one that cannot be ends its row."""
        count = self._number(cursor)
        sized = pc.less(count, 0)
        if pc.any(sized).as_py():
            some = cursor.some(sized)
            self._number(some)
            cursor.come(sized, some)
            count = pc.abs(count)
        fits = pc.less_equal(count, pc.subtract(cursor.end, cursor.at))
        cursor.at = pc.if_else(fits, cursor.at, pc.add(cursor.end, 1))
        return pc.if_else(fits, count, 0)

    # ---------------------------------------------------------------- bytes

    def _byte(self, at: pa.Array) -> pa.Array:
        last = len(self._bytes) - 1
        inside = pc.min_element_wise(at, pa.scalar(last, pa.int64()))
        return self._bytes.take(inside).cast(pa.uint64())

    def _number(self, cursor: Cursor) -> pa.Array:
        """A number of every row: seven bits a byte, and the sign in the last one."""
        found = pa.repeat(pa.scalar(0, pa.uint64()), len(cursor))
        more, at = None, cursor.at
        for number in range(_LONGEST):
            byte = self._byte(at)
            bits = pc.shift_left(pc.bit_wise_and(byte, _u(127)), _u(7 * number))
            goes_on = pc.greater(byte, _u(127))
            if more is None:
                found, at = bits, pc.add(at, 1)
                more = goes_on
            else:
                found = pc.if_else(more, pc.bit_wise_or(found, bits), found)
                at = pc.if_else(more, pc.add(at, 1), at)
                more = pc.and_(more, goes_on)
            if not pc.any(more).as_py():
                break
        cursor.at = at
        signs = pc.subtract(_u(0), pc.bit_wise_and(found, _u(1)))
        return pc.bit_wise_xor(pc.shift_right(found, _u(1)), signs).view(pa.int64())

    def _fixed(self, cursor: Cursor, size: int) -> pa.Array:
        """So many bytes of every row as a number, the lowest first."""
        found = self._byte(cursor.at)
        for number in range(1, size):
            byte = self._byte(pc.add(cursor.at, number))
            found = pc.bit_wise_or(found, pc.shift_left(byte, _u(8 * number)))
        cursor.at = pc.add(cursor.at, size)
        return found

    def _run(self, cursor: Cursor, sizes: pa.Array, wanted: pa.DataType | None) -> Any:
        """Runs of bytes: texts, and bytes themselves."""
        left = pc.subtract(cursor.end, cursor.at)
        fits = pc.and_(pc.greater_equal(sizes, 0), pc.less_equal(sizes, left))
        sizes = pc.if_else(fits, sizes, 0)
        start, cursor.at = cursor.at, pc.if_else(fits, pc.add(cursor.at, sizes), pc.add(cursor.end, 1))
        if wanted is None:
            return None
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes)])
        content = pa.LargeListViewArray.from_arrays(start, sizes, self._bytes).flatten()
        data = (content.buffers()[1] or pa.py_buffer(b"")).slice(content.offset, len(content))
        found = pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, offsets.buffers()[1], data])
        if pa.types.is_string(wanted) and not _is_text(found):
            strange = pa.array([not _is_text(found[place : place + 1]) for place in range(len(found))])
            cursor.at = pc.if_else(strange, pc.add(cursor.end, 1), cursor.at)
            found = pc.if_else(strange, pa.scalar(b"", found.type), found)
        return _cast(found, wanted)


def parsed(
    values: pa.Array, schemas: Mapping[int, Any], kinds: Sequence[pa.StructType], corrupt: str
) -> list[pa.StructArray]:
    """Messages of several schemas: an array a schema, null in all rows but its own. One that cannot be read
    says so in the field `corrupt`."""
    if not schemas:
        return [pa.nulls(len(values), kind) for kind in kinds]
    heads = pc.binary_slice(values, 0, HEADER_BYTES)
    found = []
    for (number, schema), kind in zip(schemas.items(), kinds, strict=True):
        mine = pc.fill_null(pc.equal(heads, b"\x00" + number.to_bytes(HEADER_BYTES - 1, "big")), False)
        rows, right = Decoder(schema).decode(values.filter(mine), kind)
        wrong = pc.if_else(right, None, pa.scalar("the message is cut, or of another schema"))
        arrays = [wrong if field.name == corrupt else pc.struct_field(rows, field.name) for field in kind]
        told = pa.StructArray.from_arrays(arrays, fields=list(kind))
        found.append(told if len(told) == len(values) else told.take(_places(mine)))
    return found


def _is_text(found: pa.Array) -> bool:
    """Whether all of these bytes are UTF-8; one by one they are looked at where that is known to be wrong."""
    try:
        found.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _cast(found: pa.Array, wanted: pa.DataType) -> pa.Array:
    """As what is wanted; of a message that cannot be read, anything."""
    anything = pc.CastOptions(wanted, allow_invalid_utf8=True, allow_int_overflow=True)
    return pc.cast(found, options=anything)


def _u(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


def _range(size: int) -> pa.Array:
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), size)), 1)


def _places(which: pa.Array) -> pa.Array:
    """For each row its place among those that are chosen; null for the others."""
    return pc.if_else(which, pc.subtract(pc.cumulative_sum(which.cast(pa.int64())), 1), None)


def _nulls(kind: pa.DataType | None, size: int) -> Any:
    return None if kind is None else pa.nulls(size, kind)


def _is_flat(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


def _lists(rows: list[pa.Array], size: int) -> tuple[pa.Array, pa.Array]:
    """Offsets of lists whose elements are of these rows, and the order that puts them together."""
    of = pa.concat_arrays([pa.array([], pa.int64()), *rows])
    table = pa.table({"row": of, "place": _range(len(of))})
    order = pc.sort_indices(table, sort_keys=[("row", "ascending"), ("place", "ascending")])
    counts = table.group_by("row").aggregate([([], "count_all")])
    places = pc.index_in(_range(size), value_set=counts["row"].combine_chunks())
    sizes = pc.fill_null(counts["count_all"].combine_chunks().take(places), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes)])
    return offsets.cast(pa.int32()), order
