"""Parse: texts of JSON as columns, all at once."""

from __future__ import annotations

import re
import struct

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from calve.decode.tables import TIME

_OBJECT = re.compile(rb"\s*\{")
_HLC = r"^[0-9]{1,28}\.[0-9]{10}$"


def parse(text: bytes | pa.Buffer, schema: pa.Schema, *, all_names: bool = False) -> pa.RecordBatch:
    """Values of JSON, one behind the other, as the columns of a schema. Other fields are passed over, or with
    `all_names` there too."""
    if _OBJECT.match(text) is None:
        raise pa.ArrowInvalid("JSON parse error: it is no object")  # of a null Arrow's parser would die
    size, others = len(text), "infer" if all_names else "ignore"
    table = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )
    if not table.num_rows:
        raise pa.ArrowInvalid("no value")
    return table.combine_chunks().to_batches()[0]


def are_objects(texts: pa.Array) -> pa.Array:
    """Which texts begin and end as an object does. Where all do, a line each, and together have as many
    values as there are texts, each has one: what one leaves open breaks where the next begins, so that none
    has less than one, and none more."""
    return pc.fill_null(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")), False)


def parse_objects(
    texts: pa.Array, schema: pa.Schema, *, text: bytes | pa.Buffer | None = None, all_names: bool = False
) -> pa.RecordBatch:
    """Texts of one object each, as the columns of a schema. `text` is what is parsed in their place."""
    parsed = parse(joined(texts, "\n") if text is None else text, schema, all_names=all_names)
    if parsed.num_rows != len(texts) or (len(texts) > 1 and not pc.all(are_objects(texts)).as_py()):
        raise pa.ArrowInvalid("a text that is empty, or has more than one value")
    return parsed


def joined(texts: pa.Array, between: str) -> pa.Buffer:
    """All texts as one; a null among them makes it none."""
    as_one = pa.Array.from_buffers(pa.list_(texts.type), 1, [None, bounds(len(texts))], children=[texts])
    return pc.binary_join(as_one, between)[0].as_buffer()


def bounds(size: int) -> pa.Buffer:
    """The offsets of one value that holds all."""
    return pa.py_buffer(struct.pack("=ii", 0, size))


def times(updated: pa.Array) -> pa.Array:
    """HLCs as integers; null where there is none. `wall.logical` is a decimal with ten digits behind its
    point: the digits are the same, and the point moves."""
    there = pc.fill_null(pc.match_substring_regex(updated, _HLC), False)
    text = updated if pc.all(there).as_py() else pc.if_else(there, updated, pa.scalar(None, pa.string()))
    points = pc.cast(text, pa.decimal128(38, 10))
    return pa.Array.from_buffers(TIME, len(points), points.buffers(), points.null_count, points.offset)
