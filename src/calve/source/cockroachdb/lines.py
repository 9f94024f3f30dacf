"""Lines: files of JSON, a row a line, to columns. In executors, with pyarrow alone.

    stream ──blocks of whole lines──▶ fast: `after` by the declared types ──▶ rows with their struct
                                      │ does not parse: halved, and again; from 16 lines on
                                      ▶ slim: `updated`, and whether `after` is null ──▶ rows with `raw`
                                        │ does not parse: halved, down to one line, by Python
                                        ▶ the same, or a row with an error

Guarantee: every line is one row, whatever is wrong with it, and says where it stands (P8). A line costs
kernels, not Python: only a line that nothing can be made of is looked at alone. A block is what is held in
memory (P9).

Deletes have no `after`, and their key is an array without names, of mixed types, which no parser of Arrow
reads: regular expressions take it apart, and its values are put together as objects and parsed as the key's
columns.

The key of a row is not looked at elsewhere: `after` has it. All rows of a file have the same columns
(CockroachDB's own promise, the schema's version is in the file's name), so that one row tells whether there
are more than declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import Carrier, infinite
from calve.decode.keys import KeyReader
from calve.decode.parse import parse, parse_objects, times
from calve.decode.tables import DELETE, TIME, UPSERT, TopicPlan
from calve.source.cockroachdb.blocks import Block

LEAF_LINES = 16
"""A block this small is not halved further to save its good rows from the slower parser."""
LEAVES_MAX = 8
"""So many of them, and the rest of the file is left to the slower parser at once."""

_NULL_AFTER = r'[{,]\s*"after"\s*:\s*null\s*[,}]'
_SLIM = pa.schema([("after", pa.struct([])), ("updated", pa.string()), ("topic", pa.string())])


@dataclass(frozen=True)
class Rows:
    """Rows of a file, in columns."""

    line: pa.Array
    change: pa.Array
    at: pa.Array
    error: pa.Array
    raw: pa.Array
    values: pa.Array | None
    """The struct of the declared columns."""


class LineReader:
    """The lines of one file."""

    def __init__(self, topic: str, table: TopicPlan | None) -> None:
        self._topic = topic
        self._table = table
        self._fast: TopicPlan | None = table if table is not None and table.json is not None else None
        self._keys = None if self._fast is None else KeyReader(self._fast)
        self._leaves = 0
        self._checked = False
        self._not_finite = None if table is None else _not_finite(table)

    def rows(self, block: Block) -> Iterator[Rows]:
        """The rows of a block, in order."""
        if (found := self._try_fast(block)) is None and (self._fast is None or block.count <= LEAF_LINES):
            found = self._try_slim(block)
        if found is not None:
            yield found
        elif block.count > 1:
            for half in block.halves():
                yield from self.rows(half)
        elif block.text.strip():
            yield self._alone(block)

    def _try_fast(self, block: Block) -> Rows | None:
        if self._fast is None:
            return None
        try:
            return self._read(block, self._fast)
        except (pa.ArrowException, UnicodeDecodeError):
            if block.count <= LEAF_LINES:
                self._leaves += 1
                if self._leaves > LEAVES_MAX:
                    self._fast = None
            return None

    def _try_slim(self, block: Block) -> Rows | None:
        try:
            return self._read(block, None)
        except (pa.ArrowException, UnicodeDecodeError):
            return None

    def _read(self, block: Block, table: TopicPlan | None) -> Rows | None:
        parsed = self._parse(block, table)
        after, updated = parsed["after"], parsed["updated"]
        deleted = pc.is_null(after)
        if table is not None and not self._checked and not self._has_declared_fields_alone(block, deleted):
            self._fast = None
            return self._try_slim(block)
        at = times(updated)
        error = self._errors(block, parsed, at, deleted)
        good = pc.is_null(error)
        whole = pa.scalar(True)
        values: pa.Array | None = None
        if table is not None and self._keys is not None:
            columns = {one.name: one.read(after.field(at)) for at, one in enumerate(table.columns)}
            if pc.any(deleted).as_py():
                found = self._keys.found(block.lines.filter(deleted))
                columns, mine = self._keys.fill(columns, found, deleted)
                whole = pc.or_(pc.invert(deleted), mine)
            if (doubtful := table.doubtful(columns, block.lines)) is not None:
                whole = pc.and_(whole, pc.invert(doubtful))
            mask = None if isinstance(whole, pa.Scalar) else pc.invert(whole)
            values = pa.StructArray.from_arrays(list(columns.values()), fields=list(table.arrow), mask=mask)
        return Rows(
            block.numbers,
            pc.if_else(good, pc.if_else(deleted, DELETE, UPSERT), pa.scalar(None, pa.string())),
            pc.if_else(good, at, pa.scalar(None, TIME)),
            error,
            _raw(block, table, good, whole),
            values,
        )

    def _parse(self, block: Block, table: TopicPlan | None) -> pa.RecordBatch:
        block.text.decode()  # Arrow would take bytes that are no text
        schema = _SLIM if table is None else pa.schema([("after", table.json), *list(_SLIM)[1:]])
        try:
            parsed = parse_objects(block.lines, schema, text=block.text)
        except pa.ArrowInvalid:
            # Numbers that are none come in quotes. Quotes within a text are escaped: no text is touched.
            if table is None or self._not_finite is None:
                raise
            fixed = self._not_finite.sub(rb"\1\2", block.text)
            if fixed == block.text:
                raise
            parsed = parse_objects(block.lines, schema, text=fixed)
        if table is not None:
            self._refuse_large(block, parsed["after"], table)
        return parsed

    def _refuse_large(self, block: Block, after: pa.Array, table: TopicPlan) -> None:
        """Numbers that no float holds came out infinite. Only here an infinite one may be one that came in
        quotes: inside of others those are left to the slower parser."""
        for at, one in enumerate(table.columns):
            if infinite(after.field(at)) and (not one.is_float or _has_beyond(one, block.text)):
                raise pa.ArrowInvalid("a number that no float holds")

    def _has_declared_fields_alone(self, block: Block, deleted: pa.Array) -> bool:
        if (index := pc.index(deleted, False).as_py()) < 0:
            return True  # deletes alone: the next block tells
        self._checked = True
        try:
            fields = json.loads(block.lines[index].as_py())["after"]
        except RecursionError:  # Arrow reads what lies deeper than Python does
            return False
        return self._table is not None and fields.keys() <= self._table.names

    def _errors(self, block: Block, parsed: pa.RecordBatch, at: pa.Array, deleted: pa.Array) -> pa.Array:
        """What is wrong with rows that do parse; null where nothing is."""
        error = pa.nulls(block.count, pa.string())
        if at.null_count:
            said = pc.binary_join_element_wise("its `updated` is no HLC: ", parsed["updated"], "")
            missing = "it has no `updated`: the changefeed needs WITH updated, and the wrapped envelope"
            said = pc.if_else(pc.is_null(parsed["updated"]), missing, said)
            error = pc.if_else(pc.is_null(at), said, error)
        foreign = pc.fill_null(pc.not_equal(parsed["topic"], self._topic), False)
        if pc.any(foreign).as_py():
            told = f"it is of another topic than the file's ({self._topic}): "
            said = pc.binary_join_element_wise(told, parsed["topic"], "")
            error = pc.if_else(foreign, said, error)
        if pc.any(deleted).as_py():
            found = pc.match_substring_regex(block.lines.filter(deleted), _NULL_AFTER)
            if not pc.all(found).as_py():
                absent = pc.replace_with_mask(deleted, deleted, pc.invert(found))
                said = (
                    "it has no `after`: is the envelope wrapped? Others do not tell a delete from an upsert"
                )
                error = pc.if_else(pc.and_(absent, pc.is_null(error)), said, error)
        return error

    def _alone(self, block: Block) -> Rows:
        """A line that Arrow cannot parse: it holds a number that no double holds, or is no row."""
        slim = _slim(block.text)
        found = None if slim is None else self._try_slim(Block(block.first, slim))
        return self._bad(block) if found is None else replace(found, raw=block.lines)

    def _bad(self, block: Block) -> Rows:
        """A line that is no row."""
        try:
            block.text.decode()
            parse(block.text, _SLIM)
            reason = "more than one value in a line"
        except pa.ArrowException as refused:
            reason = str(refused).replace(" in row 0", "")
        except UnicodeDecodeError:
            reason = "bytes that are no UTF-8"
        if not block.text.endswith(b"\n"):
            reason += "; the file ends in it"
        values = None if self._table is None else pa.nulls(1, self._table.arrow)
        text = block.text.decode("utf-8", "replace").rstrip("\n")
        nothing = pa.nulls(1, pa.string())
        error = pa.array([f"it is no row of a changefeed: {reason}"])
        return Rows(block.numbers, nothing, pa.nulls(1, TIME), error, pa.array([text]), values)


def _not_finite(table: TopicPlan) -> re.Pattern[bytes] | None:
    """A column of floats, and a number that is none, in quotes."""
    names = "|".join(re.escape(json.dumps(one.name)) for one in table.columns if one.is_float)
    return re.compile(rf'((?:{names})\s*:\s*)"(NaN|-?Infinity)"'.encode()) if names else None


def _has_beyond(one: Carrier, text: bytes) -> bool:
    """Whether a column has a number that is larger than all floats of its type."""
    if not re.fullmatch("[A-Za-z0-9_]+", one.name):
        return True  # the name may be written in several ways
    large = r"-?(?:[0-9.]{30}[0-9.]*|[0-9]+(?:\.[0-9]+)?(?=[eE]\+?0*[1-9][0-9]))(?:[eE]\+?[0-9]+)?"
    numbers = re.finditer(rf'"{one.name}"\s*:\s*({large})'.encode(), text)
    return infinite(pa.array([float(found[1]) for found in numbers], pa.float64()).cast(one.arrow)) > 0


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a field stands twice")
    return found


def _slim(text: bytes) -> bytes | None:
    """A line without the values of its row; `None` where it is no object."""
    try:
        # `int` refuses the words that are numbers for Python alone.
        said = json.loads(text, parse_constant=int, object_pairs_hook=_unique)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    kept = {name: said[name] for name in _SLIM.names if name in said}
    return json.dumps(kept | ({"after": {}} if isinstance(said.get("after"), dict) else {})).encode()


def _raw(block: Block, table: TopicPlan | None, good: pa.Array, whole: pa.Array | pa.Scalar) -> pa.Array:
    if table is None:
        return block.lines
    complete = pc.and_(good, whole)
    if pc.all(complete).as_py():
        return pa.nulls(block.count, pa.string())
    return pc.if_else(complete, pa.scalar(None, pa.string()), block.lines)
