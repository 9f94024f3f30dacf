"""Blocks: a stream of text, cut behind ends of lines. A block is what is held in memory at a time (P9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.parse import bounds
from calve.model.errors import BadRow
from calve.source.cockroachdb.plan import LINE_BYTES_MAX


@dataclass(frozen=True)
class Block:
    """Whole lines of a file."""

    first: int
    """The number of its first line."""
    text: bytes

    @property
    def count(self) -> int:
        return len(self.lines)  # sooner than to count the ends of lines

    @cached_property
    def lines(self) -> pa.Array:
        text = pa.py_buffer(self.text)
        text = text.slice(0, text.size - self.text.endswith(b"\n"))
        return pc.split_pattern(
            pa.Array.from_buffers(pa.string(), 1, [None, bounds(text.size), text]), "\n"
        ).values

    @property
    def numbers(self) -> pa.Array:
        return numbers(self.first, self.count)

    def halves(self) -> tuple[Block, Block]:
        middle = self.text.find(b"\n", len(self.text) // 2) + 1
        if middle in (0, len(self.text)):
            middle = self.text.rfind(b"\n", 0, len(self.text) // 2) + 1
        left = Block(self.first, self.text[:middle])
        return left, Block(self.first + left.count, self.text[middle:])


def blocks(stream: pa.NativeFile, block_bytes: int, path: str) -> Iterator[Block]:
    """A stream, cut behind ends of lines."""
    number, rest = 1, b""
    while part := stream.read(block_bytes):
        end = part.rfind(b"\n") + 1
        if end == 0:
            rest += part
            if len(rest) > LINE_BYTES_MAX:
                raise BadRow(
                    f"file {path}, line {number} is longer than {LINE_BYTES_MAX:,} bytes",
                    hint="Is it a file of a changefeed?",
                )
            continue
        block = Block(number, rest + part[:end])
        yield block
        number, rest = number + block.count, part[end:]
    if rest:
        yield Block(number, rest)


def numbers(first: int, count: int) -> pa.Array:
    """Numbers of lines."""
    return pc.cumulative_sum(
        pa.repeat(pa.scalar(1, pa.int64()), count), start=pa.scalar(first - 1, pa.int64())
    )
