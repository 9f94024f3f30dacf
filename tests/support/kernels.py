"""Kernels beside envelopes: what the one reads must be what the other makes of the same message."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from calve.config.columns import SourceTable
from calve.decode.messages import Messages, Reader
from calve.envelope.base import Envelope
from calve.model.columns import ERROR


def alone(
    envelope: Envelope,
    table: SourceTable,
    key: bytes | None,
    value: bytes,
    offset: int | None = 0,
    topic: str = "t",
) -> dict[str, Any] | None:
    """What a kernel reads of one message; `None` where it leaves it to the envelope."""
    kernel = envelope.kernel(topic, table, checks_names=True)
    if kernel is None:
        return None
    try:
        said = pa.array([value.decode() if kernel.is_text else value])
    except UnicodeDecodeError:
        return None
    found = Reader(kernel).read(Messages(pa.array([key], pa.binary()), said, pa.array([offset], pa.int64())))
    change: dict[str, Any] | None = found[0].as_py()
    return change


def check_same(
    envelope: Envelope,
    table: SourceTable,
    messages: Sequence[tuple[bytes | None, bytes, int | None]],
    rows: Sequence[Any],
) -> int:
    """Each message by itself: what a kernel reads of it is the envelope's row. How many it reads."""
    done = 0
    for (key, value, offset), row in zip(messages, rows, strict=True):
        change = alone(envelope, table, key, value, offset)
        if change is None:
            continue
        done += 1
        assert row[ERROR] is None, f"the envelope says {row[ERROR]!r}, and the kernel reads {value!r}"
        for name, found in change.items():
            assert same(found) == same(row[name]), (name, found, row[name], value)
    return done


def check_among(changes: Sequence[dict[str, Any] | None], rows: Sequence[Any]) -> int:
    """What a kernel reads of messages is among the envelope's rows. How many it reads."""
    read = [one for one in changes if one is not None]
    for change in read:
        there = [{name: same(row[name]) for name in change} for row in rows if row[ERROR] is None]
        assert {name: same(value) for name, value in change.items()} in there, change
    return len(read)


def same(value: Any) -> Any:
    """A value in one form: engines have several for times, maps and structs."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: same(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [same(inner) for inner in value]
    return repr(value) if isinstance(value, float) else value
