"""Keys: the key of a delete, out of the positional array that CockroachDB writes, by kernels alone.

    {"after": null, "key": [1, "a"], …} ──▶ 1 │ "a" ──▶ {"id": 1, "name": "a"} ──parsed──▶ id │ name

The key stands in the order of the primary key, without names. What is not as expected here (a key column that
is an array, another order of the fields) is no error yet: the row keeps its text, and a slower parser reads
it.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import infinite, refuse_tiny
from calve.decode.parse import joined, parse
from calve.decode.tables import TopicPlan

_VALUE = r'("(?:[^"\\]|\\.)*"|[^\s",\[\]{}]+)'
_TAIL = r'(?:\s*,\s*"(?:mvcc_timestamp|topic|updated)"\s*:\s*"[^"\\]*")*\s*\}\s*$'
"""Behind the key. Up to the end of the line: a key inside `before` cannot be taken for it."""


class KeyReader:
    """The keys of one table's deletes."""

    def __init__(self, table: TopicPlan) -> None:
        by_name = {one.name: one for one in table.columns}
        self._columns = [by_name[name] for name in table.key]
        hidden = [f"(?:{_VALUE[1:]}"] * table.before_key
        named = [f"(?P<k{at}>{_VALUE[1:]}" for at in range(len(self._columns))]
        values = r"\s*,\s*".join([*hidden, *named])
        self._pattern = rf'[{{,]\s*"key"\s*:\s*\[\s*{values}\s*\]{_TAIL}'
        self._schema = pa.schema([(one.name, one.json) for one in self._columns])

    def found(self, lines: pa.Array) -> pa.Array:
        """The texts of the values of keys, as structs; null where a line has none."""
        return pc.extract_regex(lines, self._pattern)

    def fill(
        self, columns: dict[str, pa.Array], found: pa.Array, deleted: pa.Array
    ) -> tuple[dict[str, pa.Array], pa.Array]:
        """The columns with the keys of the deletes, and which rows are deletes that have one. `found` are
        the texts of the keys of the deletes."""
        mine = pc.replace_with_mask(deleted, deleted, pc.is_valid(found))
        if found.null_count == len(found):
            return columns, mine
        keys = zip(self._columns, self._parse(found.drop_null()), strict=True)
        filled = {one.name: pc.replace_with_mask(columns[one.name], mine, key) for one, key in keys}
        return {**columns, **filled}, mine

    def _parse(self, texts: pa.Array) -> list[pa.Array]:
        """Texts of values, as columns."""
        parts: list[pa.Array | pa.Scalar] = []
        for at, one in enumerate(self._columns):
            parts += [pa.scalar(f"{', ' if at else '{'}{json.dumps(one.name)}: "), texts.field(at)]
        lines = pc.binary_join_element_wise(*parts, pa.scalar("}"), "")
        refuse_tiny(lines)
        parsed = parse(joined(lines, "\n"), self._schema)
        columns = [parsed.column(one.name) for one in self._columns]
        if any(map(infinite, columns)):
            raise pa.ArrowInvalid("a number that no float holds")  # an infinite one is a text
        return [one.read(column) for one, column in zip(self._columns, columns, strict=True)]
