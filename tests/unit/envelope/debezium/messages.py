"""Messages of a real connector, as frames and samples: Debezium 3.6 on PostgreSQL 15.

`messages.jsonl` has one of each kind; `types.jsonl` one table with a column of every type, by the settings of
the connector: `on` and `off` with schemas and without, `str`, `dbl`, `nano`, `iso` other modes of decimals
and times, with schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calve.envelope.base import Sample

_FOLDER = Path(__file__).parent
_COLUMNS = "topic string, partition string, offset long, key binary, value binary"


@dataclass(frozen=True)
class Message:
    topic: str
    offset: int
    key: str | None
    value: str | None
    label: str = ""

    @property
    def sample(self) -> Sample:
        return Sample(self.topic, f"{self.topic}/0", self.offset, _bytes(self.key), _bytes(self.value))

    def like(self, offset: int, **changes: Any) -> Message:
        """The same event, its message changed: `after={"id": 7}`, `op="u"`, `source={"lsn": None}`."""
        body = json.loads(self.value or "{}")
        for name, value in changes.items():
            both = isinstance(value, dict) and isinstance(body.get(name), dict)
            body[name] = {**body[name], **value} if both else value
        return replace(self, offset=offset, value=compact(body))


def compact(body: object) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def messages(file: str, topic: str) -> list[Message]:
    """Messages of a topic, in the order of their offsets."""
    lines = (json.loads(line) for line in (_FOLDER / file).read_text(encoding="utf-8").splitlines())
    found = [
        Message(one["topic"], one["offset"], one["key"], one["value"], one.get("label", ""))
        for one in lines
        if one["topic"] == topic
    ]
    assert found, f"no message of {topic}"
    return sorted(found, key=lambda one: one.offset)


def frame(spark: Any, some: Iterable[Message]) -> Any:
    rows = [(one.topic, f"{one.topic}/0", one.offset, _bytes(one.key), _bytes(one.value)) for one in some]
    return spark.createDataFrame(rows, _COLUMNS)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
