"""Texts: rows of columns as JSON, by kernels: what a slower parser is given where there was no JSON to begin
with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_CONTROLS = {chr(number): f"\\u{number:04X}" for number in range(32)}
_CONTROLS |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
"""As Spark writes them."""


def json_objects(
    columns: Mapping[str, pa.Array], numbers: Sequence[str] = (), documents: Sequence[str] = ()
) -> pa.Array:
    """Objects, a row each. `numbers` are columns of text that holds numbers, `documents` of text that is JSON
    already."""
    values = {
        name: pc.fill_null(pc.cast(array, pa.string()), "null")
        if name in documents
        else json_values(array, name in numbers)
        for name, array in columns.items()
    }
    return _joined("{", [(f"{json.dumps(name)}: ", array) for name, array in values.items()], "}")


def json_arrays(columns: Mapping[str, pa.Array], numbers: Sequence[str] = ()) -> pa.Array:
    """The same, without names."""
    return _joined("[", [("", json_values(array, name in numbers)) for name, array in columns.items()], "]")


def _joined(begin: str, parts: Sequence[tuple[str, pa.Array]], end: str) -> pa.Array:
    texts: list[pa.Array | pa.Scalar] = [pa.scalar(begin)]
    for at, (name, values) in enumerate(parts):
        texts += [pa.scalar(", " + name if at else name), values]
    return pc.binary_join_element_wise(*texts, pa.scalar(end), "")


def json_values(array: pa.Array, is_number: bool = False) -> pa.Array:
    """Values as JSON; nulls are `null`."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        found = pc.cast(array, pa.string())
    elif pa.types.is_floating(kind):
        found = _floats(array)
    elif is_number:
        text = pc.cast(array, pa.string())
        found = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, quoted(text))
    elif pa.types.is_string(kind):
        found = quoted(array)
    elif pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        found = pc.binary_join_element_wise(pa.scalar('"\\\\x'), hexed(array), pa.scalar('"'), "")
    else:  # lists and times: rare enough
        found = pa.array(
            [None if one is None else json.dumps(one, default=str) for one in array.to_pylist()], pa.string()
        )
    return pc.fill_null(found, "null")


def quoted(array: pa.Array) -> pa.Array:
    """Texts as JSON."""
    found = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(found, r"[\x00-\x1f]")).as_py():
        for one, escaped in _CONTROLS.items():
            found = pc.replace_substring(found, one, escaped)
    return pc.binary_join_element_wise(pa.scalar('"'), found, pa.scalar('"'), "")


def _floats(array: pa.Array) -> pa.Array:
    text = pc.cast(array, pa.string())
    named = pc.if_else(
        pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0.0), '"Infinity"', '"-Infinity"')
    )
    return pc.if_else(pc.is_finite(array), text, named)


def hexed(array: pa.Array) -> pa.Array:
    """Bytes in hexadecimal digits: what lies one behind the other is written so, and offsets double."""
    array = pa.concat_arrays([pc.cast(array, pa.binary())])
    validity, offsets, data = array.buffers()
    at = pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, offsets], offset=array.offset)
    first, last = at[0].as_py(), at[-1].as_py()
    digits = b"" if data is None else data.slice(first, last - first).to_pybytes().hex().encode()
    twice = pc.multiply(pc.subtract(at, pa.scalar(first, pa.int32())), pa.scalar(2, pa.int32()))
    if array.null_count and array.offset:
        validity = pc.is_valid(array).buffers()[1]
    buffers = [validity if array.null_count else None, twice.buffers()[1], pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(array), buffers)
