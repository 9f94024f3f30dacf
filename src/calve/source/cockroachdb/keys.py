"""Keys: the key of a delete, out of the positional array that CockroachDB writes, by kernels alone.

    {"after": null, "key": [1, "a"], …} ──▶ 1 │ "a" ──▶ {"id": 1, "name": "a"} ──parsed──▶ id │ name

The key stands in the order of the primary key, without names. What is not as expected here (a key column that
is an array, another order of the fields) is no error yet: the row keeps its text, and a slower parser reads
it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from calve.source.cockroachdb.blocks import bounds
from calve.source.cockroachdb.plan import TopicPlan

if TYPE_CHECKING:
    from calve.source.cockroachdb.blocks import Block

_VALUE = r'("(?:[^"\\]|\\.)*"|[^\s",\[\]{}]+)'
_TAIL = r'(?:\s*,\s*"(?:mvcc_timestamp|topic|updated)"\s*:\s*"[^"\\]*")*\s*\}\s*$'
"""Behind the key. Up to the end of the line: a key inside `before` cannot be taken for it."""


class KeyReader:
    """The keys of one table's deletes."""

    def __init__(self, table: TopicPlan) -> None:
        self._table = table
        by_name = {one.name: one for one in table.columns}
        self._columns = [by_name[name] for name in table.key]
        hidden = [f"(?:{_VALUE[1:]}"] * table.before_key
        named = [f"(?P<k{at}>{_VALUE[1:]}" for at in range(len(self._columns))]
        values = r"\s*,\s*".join([*hidden, *named])
        self._pattern = rf'[{{,]\s*"key"\s*:\s*\[\s*{values}\s*\]{_TAIL}'
        self._schema = pa.schema([(one.name, one.json) for one in self._columns])

    def fill(
        self, values: pa.Array, block: Block, deleted: pa.Array
    ) -> tuple[pa.Array, pa.Array | pa.Scalar]:
        """The rows with the key columns of the deletes filled, and which rows are whole."""
        if not pc.any(deleted).as_py():
            return values, pa.scalar(True)
        if not self._columns:
            return self._masked(values, deleted), pc.invert(deleted)
        found = pc.extract_regex(block.lines.filter(deleted), self._pattern)
        mine = pc.replace_with_mask(deleted, deleted, pc.is_valid(found))
        whole = pc.or_(pc.invert(deleted), mine)
        if found.null_count < len(found):
            keys = self._parse(found.drop_null())
            arrays = dict(zip(self._table.arrow.names, values.flatten(), strict=True))
            for one, key in zip(self._columns, keys, strict=True):
                arrays[one.name] = pc.replace_with_mask(arrays[one.name], mine, key)
            values = pa.StructArray.from_arrays(list(arrays.values()), fields=list(self._table.arrow))
        return self._masked(values, pc.invert(whole)), whole

    def _parse(self, texts: pa.Array) -> list[pa.Array]:
        """Texts of values, as columns."""
        parts: list[pa.Array | pa.Scalar] = []
        for at, one in enumerate(self._columns):
            parts += [pa.scalar(f"{', ' if at else '{'}{json.dumps(one.name)}: "), texts.field(at)]
        lines = pc.binary_join_element_wise(*parts, pa.scalar("}\n"), "")
        one_list = pa.Array.from_buffers(
            pa.list_(pa.string()), 1, [None, bounds(len(lines))], children=[lines]
        )
        data = pc.binary_join(one_list, "")[0].as_buffer()
        parsed = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="error"),
        ).combine_chunks()
        columns = [parsed.column(one.name).combine_chunks() for one in self._columns]
        return [one.finish(_single(column)) for one, column in zip(self._columns, columns, strict=True)]

    def _masked(self, values: pa.Array, without: pa.Array) -> pa.Array:
        """Rows that are not whole have no struct."""
        if not pc.any(without).as_py():
            return values
        arrays = values.flatten()
        return pa.StructArray.from_arrays(arrays, fields=list(self._table.arrow), mask=without)


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
