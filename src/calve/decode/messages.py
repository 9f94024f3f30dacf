"""Messages: which of a batch are read here, and which stay as they are.

    topic, partition, offset, key, value ──▶ the same, and a struct: the change, if it was read here
                                             └ then without key and value

    a block of messages ──kernel──▶ changes, null where a message is not plain
        │ does not parse: halved, and again; 16 that do not are left as they are
        └ eight such, and the rest of the task is left at once

Guarantee: every message is there once, as a change or as it came (P8). A batch is what is held in memory
(P9). A column that the table does not have is seen, wherever it is: it is parsed along, and whoever has it
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import infinite
from calve.decode.parse import are_objects, joined, parse_objects
from calve.decode.reuse import settle
from calve.decode.structs import Structs, together

LEAF = 16
"""So few messages are not halved further to save the good among them."""
LEAVES_MAX = 8


@dataclass(frozen=True)
class Messages:
    """Some messages of one topic."""

    keys: pa.Array
    """Bytes, or null."""
    values: pa.Array
    """The text of one object each, or bytes."""
    offsets: pa.Array

    @cached_property
    def text(self) -> pa.Buffer:
        """All of them, one behind the other."""
        return joined(self.values, "\n")

    def parse(self, schema: pa.Schema, text: bytes | None = None, *, all_names: bool) -> pa.RecordBatch:
        """All of them as the columns of a schema; `all_names`: and what else is in them, as Arrow guesses it.
        `text` is what is parsed in their place."""
        parsed = parse_objects(self.values, schema, text=text or self.text, all_names=all_names)
        if any(map(infinite, parsed.columns)):
            raise pa.ArrowInvalid("a number that no float holds")
        return parsed

    def half(self, first: bool) -> Messages:
        middle = len(self.values) // 2
        start, end = (0, middle) if first else (middle, len(self.values))
        return Messages(*(one.slice(start, end - start) for one in (self.keys, self.values, self.offsets)))

    def some(self, which: pa.Array) -> Messages:
        return Messages(*(one.filter(which) for one in (self.keys, self.values, self.offsets)))


class Kernel(Protocol):
    """How the messages of a topic are read."""

    @property
    def is_text(self) -> bool:
        """Whether a message is the text of an object; else bytes."""
        ...

    @property
    def struct(self) -> pa.DataType:
        """A change: data columns and those of `model/columns.py`."""
        ...

    def read(self, messages: Messages) -> pa.Array:
        """Their changes, null where a message is not plain; an error where some cannot be parsed."""
        ...


def check_names(found: pa.DataType | pa.Schema, known: AbstractSet[str]) -> None:
    """Refuse rows with columns that are not known."""
    if strange := set(found.names) - known:
        raise pa.ArrowInvalid(f"columns that the table has not: {sorted(strange)}")


def changes(struct: pa.DataType, columns: Sequence[pa.Array], good: pa.Array) -> pa.Array:
    """The changes of columns, null where one is not good."""
    mask = None if pc.all(good).as_py() else pc.invert(good)
    return pa.StructArray.from_arrays(list(columns), fields=list(struct), mask=mask)


@dataclass(slots=True)
class Reader:
    """The messages of one topic in a task."""

    kernel: Kernel
    leaves: int = 0

    def read(self, messages: Messages) -> pa.Array:
        """The changes of messages, null where one stays as it is."""
        whole = are_objects(messages.values) if self.kernel.is_text else pc.is_valid(messages.values)
        if self.leaves > LEAVES_MAX or not pc.any(whole).as_py():
            return self._left(len(whole))
        if not pc.all(whole).as_py():
            return spread(self.read(messages.some(whole)), whole)
        return self._halving(messages)

    def _halving(self, messages: Messages) -> pa.Array:
        count = len(messages.values)
        if not count or self.leaves > LEAVES_MAX:
            return self._left(count)
        try:
            return self.kernel.read(messages)
        except pa.ArrowException:
            if count > LEAF:
                halves = [self._halving(messages.half(first)) for first in (True, False)]
                return pa.concat_arrays(halves)
            self.leaves += 1
            return self._left(count)

    def _left(self, count: int) -> pa.Array:
        return pa.nulls(count, self.kernel.struct)


def spread(found: pa.Array, where: pa.Array) -> pa.Array:
    """An array to the places where there is one of its values, null elsewhere."""
    numbers = pc.subtract(pc.cumulative_sum(pc.cast(where, pa.int64())), 1)
    return found.take(pc.if_else(where, numbers, pa.scalar(None, pa.int64())))


@dataclass(frozen=True)
class Decoding:
    """What is read of a frame of messages: by a kernel for each topic that has one."""

    kernels: Mapping[str, Kernel]
    column: str
    """The struct that the changes of all topics stand in."""

    @cached_property
    def structs(self) -> Structs:
        return together({topic: kernel.struct for topic, kernel in self.kernels.items()}, self.column)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        pa.set_cpu_count(1)  # the engine runs a task a core
        readers = {topic: Reader(kernel) for topic, kernel in self.kernels.items()}
        for batch in batches:
            for topic, some in _by_topic(batch):
                yield self._read(some, None if topic is None else readers.get(topic), topic)
        settle()

    def _read(self, batch: pa.RecordBatch, reader: Reader | None, topic: str | None) -> pa.RecordBatch:
        columns = {name: batch[name] for name in batch.schema.names}
        found = None
        if reader is not None:
            found = _read(batch, reader)
            left = pc.is_null(found)
            nothing = pa.scalar(None, pa.binary())
            columns |= {name: pc.if_else(left, columns[name], nothing) for name in ("key", "value")}
        columns[self.column] = self.structs.put(topic, found, batch.num_rows)[0]
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def schema(self, messages: pa.Schema) -> pa.Schema:
        """Of the frame that comes of it."""
        return pa.schema([*messages, *self.structs.columns.items()])


def _read(batch: pa.RecordBatch, reader: Reader) -> pa.Array:
    try:
        values = pc.cast(batch["value"], pa.string()) if reader.kernel.is_text else batch["value"]
    except pa.ArrowInvalid:  # bytes that are no text: which messages have them is told by the envelope
        return pa.nulls(batch.num_rows, reader.kernel.struct)
    return reader.read(Messages(batch["key"], values, batch["offset"]))


def _by_topic(batch: pa.RecordBatch) -> Sequence[tuple[str | None, pa.RecordBatch]]:
    topics = pc.unique(batch["topic"])
    if len(topics) == 1:
        return [(topics[0].as_py(), batch)]
    found = []
    for topic in topics:
        mine = pc.equal(batch["topic"], topic) if topic.is_valid else pc.is_null(batch["topic"])
        found.append((topic.as_py(), batch.filter(mine)))
    return found
