"""The same changes as Kafka gets them: keys, values in an envelope, resolved timestamps to every partition.

    Changefeed.sent ──▶ Message(topic, partition, key, value), in the order in which they are produced

| envelope | value |
|---|---|
| `wrapped` | `{"after": …, "updated": …}`; `key` too with `key_in_value` |
| `enriched` | `{"after": …, "op": c/u/d, "ts_ns": …, "source": {…, "ts_hlc": …}}` |
| `bare` | the row itself, and `__crdb__`; a delete is the key and nulls |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.changefeed.feed import Changefeed, Emission, Resolved, hash_of, hlc
from tests.support.changefeed.history import Table
from tests.support.changefeed.values import obj, printed, raw_object

ENVELOPES = ("wrapped", "enriched", "bare")


@dataclass(frozen=True)
class Message:
    """What a producer hands to Kafka."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes


def messages(
    feed: Changefeed, envelope: str = "wrapped", *, partitions: int = 1, key_in_value: bool = False
) -> Iterator[Message]:
    """All that was sent so far."""
    for sent in feed.sent:
        if isinstance(sent, Resolved):
            value = _resolved(sent.time, envelope)
            for topic in sorted(feed.history.tables):
                for partition in range(partitions):
                    yield Message(topic, partition, None, value)
            continue
        topic = sent.change.topic
        table = feed.history.schemas[topic][sent.change.version.schema - 1][1]
        partition = hash_of(sent.change) % partitions
        key = _key(sent, table, envelope)
        yield Message(topic, partition, key.encode(), _value(sent, table, envelope, key_in_value).encode())


def _resolved(time: int, envelope: str) -> bytes:
    said = {"resolved": hlc(time)}
    return json.dumps({"__crdb__": said} if envelope == "bare" else said).encode()


def _key(sent: Emission, table: Table, envelope: str) -> str:
    if envelope == "enriched":
        return obj(dict(zip(table.key, sent.change.key, strict=True)))
    return sent.key


def _value(sent: Emission, table: Table, envelope: str, key_in_value: bool) -> str:
    version = sent.change.version
    if envelope == "wrapped":
        return sent.wrapped(key=key_in_value)
    if envelope == "bare":
        nothing = {name: None for name, _ in table.columns}
        row = version.row or {**nothing, **dict(zip(table.key, sent.change.key, strict=True))}
        meta = {"updated": printed(hlc(sent.updated)), **({"key": sent.key} if key_in_value else {})}
        texts = {name: printed(value) for name, value in row.items()}
        return raw_object({**texts, "__crdb__": raw_object(meta)})
    op = "d" if version.row is None else "c" if version.before is None else "u"
    source = {
        "changefeed_sink": "kafka",
        "database_name": "db",
        "mvcc_timestamp": hlc(version.mvcc),
        "primary_keys": list(table.key),
        "schema_name": "public",
        "table_name": table.topic,
        "ts_hlc": hlc(sent.updated),
        "ts_ns": sent.updated // 10**10,
    }
    fields = {
        "after": "null" if version.row is None else obj(version.row),
        "op": json.dumps(op),
        "source": json.dumps(source),
        "ts_ns": str(sent.updated // 10**10 + 5),
    }
    if key_in_value:
        fields["key"] = _key(sent, table, envelope)
    return raw_object(fields)
