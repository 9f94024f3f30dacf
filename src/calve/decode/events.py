"""Events: Debezium's messages in JSON, as `envelope/debezium` describes them, by kernels.

    {"before": {…}, "after": {…}, "source": {…}, "op": "u", "transaction": {…}}     below a schema, or alone

Plain is a change of a row with its key and its position, all of whose values were sent: no truncate, no
placeholder, no value that has no place in its column.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import Carrier
from calve.decode.messages import Messages, changes, check_names, spread
from calve.decode.numbers import digits, unbase64, unscaled
from calve.decode.tables import TopicPlan
from calve.model.columns import CLOCK, OP, POSITION, UNKNOWN

POSTGRES = "postgresql"
MYSQL = ("mysql", "mariadb")
_LONG, _TEXT = pa.int64(), pa.string()
_SOURCE = pa.struct(
    [
        *((name, _TEXT) for name in ("connector", "snapshot", "sequence", "file")),
        *((name, _LONG) for name in ("lsn", "pos", "row", "ts_ms")),
    ]
)
_TRANSACTION = pa.struct([("total_order", _LONG)])
_FIELDS = ("before", "after", "op", "source", "transaction")
_OPS = {"c": "insert", "u": "upsert", "r": "upsert", "d": "delete"}
_SEQUENCE = r'^\[(?:null|"(?P<commit>[0-9]+)"),"(?P<lsn>[0-9]+)"\]$'
_FILE = r"\.(?P<number>[0-9]+)$"
_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS


@dataclass(frozen=True, slots=True)
class Wire:
    """How a column comes."""

    way: str
    """`plain`: as its carrier reads it. `days`, `units`: a number since 1970. `bytes`, `unscaled`: base64."""
    number: int = 0
    """Units a second, or the scale."""

    def type(self, plain: pa.DataType | None) -> pa.DataType | None:
        """What it is parsed as."""
        match self.way:
            case "days" | "units":
                return _LONG
            case "bytes" | "unscaled":
                return _TEXT
        return plain

    def made(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """What its carrier finishes."""
        match self.way:
            case "days":
                return pc.cast(pc.cast(array, pa.int32()), pa.date32())
            case "units":
                micros = _micros(array, self.number)
                return _of_a_day(micros) if kind == _LONG else pc.cast(micros, kind)
            case "bytes":
                return _octets(array)
            case "unscaled":
                return unscaled(_octets(array), self.number)
        return array


@dataclass(frozen=True, slots=True)
class Version:
    """Messages of one schema."""

    wires: Mapping[str, Wire]
    """By column; what messages do not have is null."""
    prefix: bytes = b""
    """What messages begin with, where they bring their schema, or name it; it ends before the payload."""


@dataclass(frozen=True)
class Events:
    """The messages of one table."""

    table: TopicPlan
    versions: tuple[Version, ...]
    placeholder: str
    """What stands for a value that was not sent."""
    checks_names: bool = True

    is_text = True

    @cached_property
    def struct(self) -> pa.DataType:
        return pa.struct([*self.table.arrow, (OP, _TEXT), (POSITION, _TEXT), (CLOCK, _LONG)])

    def read(self, messages: Messages) -> pa.Array:
        """Their changes, null where a message is not plain."""
        first = self.versions[0]
        if not first.prefix:
            return self._read(messages, first)
        found: pa.Array | None = None
        for version in self.versions:
            mine = pc.starts_with(messages.values, version.prefix)
            if pc.all(mine).as_py():
                return self._read(messages, version)
            if pc.any(mine).as_py():
                here = spread(self._read(messages.some(mine), version), mine)
                found = here if found is None else pc.coalesce(found, here)
        return pa.nulls(len(messages.values), self.struct) if found is None else found

    def read_as(self, wire: Wire, one: Carrier) -> pa.DataType | None:
        """What a column is parsed as."""
        return wire.type(one.json)

    def schema(self, version: Version) -> pa.Schema:
        """What messages are parsed as."""
        types = [
            (one.name, self.read_as(version.wires[one.name], one))
            for one in self.table.columns
            if one.name in version.wires
        ]
        key = [one for one in types if one[0] in self.table.key]
        rows = [("before", pa.struct(key)), ("after", pa.struct(types))]
        return pa.schema([*rows, ("op", _TEXT), ("source", _SOURCE), ("transaction", _TRANSACTION)])

    def parsed(self, messages: Messages, version: Version) -> Mapping[str, pa.Array]:
        """What messages of a version say. Without an op one says nothing."""
        bodies = _bodies(messages, version) if version.prefix else messages
        found = bodies.parse(self.schema(version), all_names=self.checks_names)
        if self.checks_names:
            check_names(found["after"].type, self.table.names)
        return {name: found[name] for name in _FIELDS}

    def doubtful(self, columns: Mapping[str, pa.Array], messages: Messages) -> pa.Array | None:
        """Rows with a decimal that may not be what was sent."""
        return self.table.doubtful(columns, messages.values)

    def _read(self, messages: Messages, version: Version) -> pa.Array:
        parsed = self.parsed(messages, version)
        op, before, after = parsed["op"], parsed["before"], parsed["after"]
        deleted = pc.fill_null(pc.equal(op, "d"), False)
        good = pc.is_in(op, pa.array(list(_OPS)))
        columns: dict[str, pa.Array] = {}
        for one in self.table.columns:
            if (wire := version.wires.get(one.name)) is None:
                columns[one.name] = pa.nulls(len(op), one.arrow)
                continue
            array = pc.struct_field(after, one.name)
            if one.name in self.table.key:
                array = pc.if_else(deleted, pc.struct_field(before, one.name), array)
            if (unsent := self._unsent.get(array.type)) is not None:
                good = pc.and_not(good, pc.is_in(array, unsent))
            columns[one.name] = one.finish(wire.made(array, one.arrow))
        good = reduce(pc.and_, (pc.is_valid(columns[name]) for name in self.table.key), good)
        if (doubtful := self.doubtful(columns, messages)) is not None:
            good = pc.and_not(good, doubtful)
        position = _position(parsed, deleted, messages.offsets)
        good = pc.and_(good, pc.is_valid(position))
        words = pa.array(list(_OPS.values())).take(pc.index_in(op, pa.array(list(_OPS))))
        clock = pc.struct_field(parsed["source"], "ts_ms")
        return changes(self.struct, [*columns.values(), words, position, clock], good)

    @cached_property
    def _unsent(self) -> dict[pa.DataType, pa.Array]:
        """What stands for a value that was not sent, by the type that it comes as."""
        octets = self.placeholder.encode()
        return {
            _TEXT: pa.array([self.placeholder, base64.b64encode(octets).decode()]),
            pa.binary(): pa.array([octets]),
        }


def _bodies(messages: Messages, version: Version) -> Messages:
    """Messages without their schema."""
    whole = pc.cast(messages.values, pa.binary())
    bodies = pc.cast(pc.binary_slice(whole, len(version.prefix), -1), _TEXT)
    return Messages(messages.keys, bodies, messages.offsets)


def _octets(array: pa.Array) -> pa.Array:
    """Bytes, which come in texts as base64."""
    return unbase64(array) if array.type == _TEXT else array


def _of_a_day(micros: pa.Array) -> pa.Array:
    if pc.any(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY))).as_py():
        raise pa.ArrowInvalid("no time of a day")
    return micros


def _micros(array: pa.Array, units_a_second: int) -> pa.Array:
    """Microseconds; what is finer is cut, towards the past."""
    if units_a_second <= _MICROSECONDS:
        return pc.multiply_checked(array, pa.scalar(_MICROSECONDS // units_a_second, _LONG))
    cut = pa.scalar(units_a_second // _MICROSECONDS, _LONG)
    whole = pc.divide(array, cut)
    return pc.subtract(whole, pc.cast(pc.greater(pc.multiply(whole, cut), array), _LONG))


def _position(parsed: Mapping[str, pa.Array], deleted: pa.Array, offsets: pa.Array) -> pa.Array:
    """Positions, as `envelope/debezium/position.py` has them; null where there is none, or no plain one."""
    source = parsed["source"]
    streams = pc.if_else(pc.fill_null(pc.equal(pc.struct_field(source, "snapshot"), "false"), True), "1", "0")
    connectors = pc.unique(pc.struct_field(source, "connector")).to_pylist()
    offset = pc.coalesce(digits(offsets), pa.scalar(UNKNOWN))
    if connectors == [POSTGRES]:
        return _postgres(source, pc.struct_field(parsed["transaction"], "total_order"), streams, offset)
    if len(connectors) == 1 and connectors[0] in MYSQL:
        return _mysql(source, deleted, streams, offset)
    return pa.nulls(len(source), _TEXT)


def _postgres(source: pa.Array, order: pa.Array, streams: pa.Array, offset: pa.Array) -> pa.Array:
    found = pc.extract_regex(pc.struct_field(source, "sequence"), _SEQUENCE)
    # A group that takes no part in a match is an empty text.
    texts = {name: pc.struct_field(found, name) for name in ("commit", "lsn")}
    at = pc.cast(texts["lsn"], _LONG)
    empty = pc.equal(texts["commit"], "")
    commit = pc.cast(pc.if_else(empty, pa.scalar(None, _TEXT), texts["commit"]), _LONG)
    commit = pc.coalesce(commit, at)
    last = pc.coalesce(digits(order), offset)
    return pc.binary_join_element_wise(digits(commit), digits(at), streams, last, "")


def _mysql(source: pa.Array, deleted: pa.Array, streams: pa.Array, offset: pa.Array) -> pa.Array:
    found = pc.extract_regex(pc.struct_field(source, "file"), _FILE)
    number = pc.cast(pc.struct_field(found, "number"), _LONG)
    row = pc.fill_null(pc.struct_field(source, "row"), 0)
    rank = pc.if_else(deleted, "0", "1")
    copied = pc.if_else(pc.equal(streams, "1"), "0" * 16, offset)
    pos = digits(pc.struct_field(source, "pos"))
    return pc.binary_join_element_wise(digits(number), pos, streams, digits(row), rank, copied, "")
