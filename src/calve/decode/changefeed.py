"""Changefeed: CockroachDB's messages, as `envelope/cockroachdb` describes them, by kernels.

    wrapped    {"after": {…} | null, "key": […], "updated": "<HLC>"}
    enriched   {"after": {…} | null, "op": "c", "source": {"ts_hlc": "<HLC>"}}     or below "payload"
    bare       {…, "__crdb__": {"updated": "<HLC>"}}

Plain is a row with its key and its time, and a delete whose key is where it should be. A resolved time is
not: it is rare, and the envelope reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import refuse_tiny
from calve.decode.keys import KeyReader
from calve.decode.messages import Messages, changes, check_names
from calve.decode.parse import parse_objects, times
from calve.decode.tables import DELETE, TIME, UPSERT, TopicPlan
from calve.model.columns import OP
from calve.model.columns import TIME as AT

CRDB = "__crdb__"
_NULL_AFTER = r'[{,]\s*"after"\s*:\s*null\s*[,}]'
_KEY = re.compile(rb'"key"\s*:\s*\[[^\[\]{}]*\]')
_TEXT = pa.string()
Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Changefeed:
    """The messages of one table."""

    table: TopicPlan
    kind: str
    """wrapped, enriched or bare."""
    payload: bool = False
    topic: str | None = None
    """What messages call their table, where they say it."""
    required: str | None = None
    """A column that is null in bare deletes alone."""
    checks_names: bool = True

    is_text = True

    @cached_property
    def struct(self) -> pa.DataType:
        return pa.struct([*self.table.arrow, (OP, _TEXT), (AT, TIME)])

    @cached_property
    def _schema(self) -> pa.Schema:
        row = self.table.json
        assert row is not None
        meta = [(name, _TEXT) for name in ("updated", "resolved", "topic")]
        if self.kind == "wrapped":
            return pa.schema([("after", row), *meta])
        if self.kind == "bare":
            return pa.schema([*row, (CRDB, pa.struct(meta))])
        source = pa.struct([("ts_hlc", _TEXT), ("table_name", _TEXT)])
        body = [("after", row), ("source", source), ("resolved", _TEXT), ("key", self._key)]
        return pa.schema([("payload", pa.struct(body)), ("resolved", _TEXT)] if self.payload else body)

    @cached_property
    def _key(self) -> pa.DataType:
        by_name = {one.name: one for one in self.table.columns}
        return pa.struct([(name, by_name[name].json) for name in self.table.key])

    @cached_property
    def _has_key(self) -> bool:
        """Whether a column, or a field inside of one, may be called `key`."""
        return "key:" in str(self.table.json)

    def read(self, messages: Messages) -> pa.Array:
        """Their changes, null where a message is not plain."""
        parsed = self._parsed(messages)
        body = _fields(parsed["payload"]) if self.payload else _fields(parsed)
        if self.checks_names and self.kind == "bare":
            check_names(parsed.schema, self.table.names | {CRDB})
        elif self.checks_names:
            check_names(body["after"].type, self.table.names)
        match self.kind:
            case "bare":
                about, row, after = _fields(parsed[CRDB]), body, body[self.required or ""]
                time, named = about["updated"], about["topic"]
            case "enriched":
                about, row, after = body, _fields(body["after"]), body["after"]
                time, named = (body["source"].field(name) for name in ("ts_hlc", "table_name"))
            case _:
                about, row, after = body, _fields(body["after"]), body["after"]
                time, named = body["updated"], body["topic"]
        at = times(time)
        good = pc.and_(pc.is_valid(at), pc.is_null(about["resolved"]))
        if self.payload:
            good = pc.and_(good, pc.is_null(parsed["resolved"]))
        if self.topic is not None:
            good = pc.and_(good, self._is_mine(named))
        has_row = pc.is_valid(after)
        columns = {one.name: one.read(row[one.name]) for one in self.table.columns}
        deleted = pc.and_(good, pc.invert(has_row))
        if self.kind != "bare" and pc.any(deleted).as_py():
            columns = self._with_keys(columns, body, messages, deleted)
        good = reduce(pc.and_, (pc.is_valid(columns[name]) for name in self.table.key), good)
        if (doubtful := self.table.doubtful(columns, messages.values)) is not None:
            good = pc.and_not(good, doubtful)
        return changes(self.struct, [*columns.values(), pc.if_else(has_row, UPSERT, DELETE), at], good)

    def _parsed(self, messages: Messages) -> pa.RecordBatch:
        text = None
        if self.kind == "wrapped" and self.checks_names and len(self.table.key) > 1 and not self._has_key:
            # Arrow guesses no type of an array that has several. The key is taken from the text of a delete.
            text = _KEY.sub(b'"key":0', messages.text)
        return messages.parse(self._schema, text, all_names=self.checks_names)

    def _is_mine(self, named: pa.Array) -> pa.Array:
        """A message that does not say of which table it is, is of its topic's."""
        if self.kind != "enriched":
            return pc.fill_null(pc.equal(named, self.topic), True)
        topic = self.topic or ""
        known = [one for one in pc.unique(named).to_pylist() if one is None or topic.endswith(one)]
        return pc.is_in(named, pa.array(known, _TEXT))

    def _with_keys(self, columns: Columns, body: Columns, messages: Messages, deleted: pa.Array) -> Columns:
        """The keys of deletes in their columns, as far as they are where they should be."""
        texts = messages.values.filter(deleted)
        is_delete = pc.match_substring_regex(texts, _NULL_AFTER)
        deleted = pc.replace_with_mask(deleted, deleted, is_delete)
        texts = texts.filter(is_delete)
        if self.kind == "enriched":
            return self._with_named(columns, _fields(body["key"]), messages, deleted)
        reader = KeyReader(self.table)
        found = reader.found(texts)
        if found.null_count:
            keys = pc.cast(messages.keys.filter(deleted), _TEXT)
            beside = pc.binary_join_element_wise(pa.scalar('{"key": '), keys, pa.scalar("}"), "")
            found = pc.if_else(pc.is_valid(found), found, reader.found(beside))
        return reader.fill(columns, found, deleted)[0]

    def _with_named(
        self, columns: Columns, inside: Columns, messages: Messages, deleted: pa.Array
    ) -> Columns:
        """The same, of keys that have names: in the value, or beside it."""
        here = {name: inside[name].filter(deleted) for name in self.table.key}
        if any(key.null_count for key in here.values()):
            texts = pc.cast(messages.keys.filter(deleted), _TEXT)
            if texts.null_count:
                raise pa.ArrowInvalid("a delete that has no key")
            refuse_tiny(texts)
            beside = parse_objects(texts, pa.schema([*self._key, ("payload", self._key)]))
            payload = beside["payload"]
            here = {name: pc.coalesce(key, beside[name], payload.field(name)) for name, key in here.items()}
        by_name = {one.name: one for one in self.table.columns}
        filled = {
            name: pc.replace_with_mask(columns[name], deleted, by_name[name].read(key))
            for name, key in here.items()
        }
        return {**columns, **filled}


def _fields(of: pa.Array | pa.RecordBatch) -> Columns:
    """The columns of a batch, or of structs."""
    if isinstance(of, pa.RecordBatch):
        return dict(zip(of.schema.names, of.columns, strict=True))
    return {of.type.field(at).name: of.field(at) for at in range(of.type.num_fields)}
