"""TOAST: values that PostgreSQL did not send, because they are long and did not change.

    {"after": {"id": 1, "text": "__debezium_unavailable_value"}}

Debezium puts a placeholder in their place. It is never written. By default the row is refused; with
`toast='keep'` the value is taken from where the stream itself has it:

1. from `before`, which has it under REPLICA IDENTITY FULL;
2. from the last change of the same key before it in the same micro-batch, where every change in between says
   nothing of the column.

Where neither has it, the row is refused: the table is not read. Why 2 is right: a partition of a topic is
delivered without gaps and a key stays in its partition, so nothing lies between two changes of a key in a
micro-batch but what is in it. A row that was created has no older value, also where its key was deleted or
changed: there the placeholder of a `c` is refused.

Debezium 3.6 sends null, not the placeholder, for long arrays of numeric, timestamp, float and boolean and for
long numerics: these cannot be told from a null. REPLICA IDENTITY FULL is the only remedy.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from calve.envelope.debezium.schema import UUID, Field

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The connector's unavailable.value.placeholder, in all forms that it takes."""

    word: str = PLACEHOLDER
    text: bool = True
    """In JSON: bytes are base64."""

    def is_in(self, field: Field, raw: Column) -> Column | None:
        """Whether a value is the placeholder; `None` where it cannot be."""
        match field.kind:
            case "string":
                # Where a column's type is a guess, bytes are taken for text.
                return raw.isin(self.word, base64.b64encode(self.word.encode()).decode())
            case "bytes":
                return raw == self._bytes
            case "array":
                return self._is_in_array(field.inside[0], raw)
            case "map":
                return F.map_keys(raw) == F.array(F.lit(self.word))
        return None

    def _is_in_array(self, element: Field, raw: Column) -> Column | None:
        if element.kind in ("int16", "int32", "int64"):
            return raw == F.array(*(F.lit(one) for one in self.word.encode())).cast(
                "array<bigint>" if element.kind == "int64" else "array<int>"
            )
        if element.meaning == UUID:
            return raw == F.array(F.lit(str(_uuid_of(self.word.encode()))))
        one = self.is_in(element, F.get(raw, F.lit(0)))
        return None if one is None else (F.size(raw) == 1) & one

    @property
    def _bytes(self) -> Column:
        raw = self.word.encode()
        return F.lit(base64.b64encode(raw).decode()) if self.text else F.lit(bytearray(raw))


def _uuid_of(name: bytes) -> uuid.UUID:
    """Java's UUID.nameUUIDFromBytes."""
    return uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3)
