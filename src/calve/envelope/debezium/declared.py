"""Fields of columns whose messages have no schema: what the connector's settings make of a declared type.

    type in Iceberg + decimals, times ──▶ Field

`adaptive` is Debezium's own default. Without a schema nothing tells a column with milliseconds from one with
microseconds: microseconds are taken, as columns of full precision have them. Others are to be named in
`meanings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from calve.config.types import Decimal, List, Map, Plain, Struct, Type, parse_type
from calve.envelope.debezium.schema import (
    ANY_DECIMAL,
    DATES,
    ISO_DATE,
    ISO_TIME,
    ISO_TIMESTAMP,
    TIMES,
    TIMESTAMPS,
    UUID,
    ZONED_TIMESTAMP,
    Field,
)
from calve.model.errors import ConfigError

DECIMALS = ("precise", "string", "double")
"""Debezium's decimal.handling.mode."""
_TIME = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."
PRECISIONS = {
    "adaptive": (_TIME + "Date", _TIME + "MicroTime", _TIME + "MicroTimestamp"),
    "adaptive_time_microseconds": (_TIME + "Date", _TIME + "MicroTime", _TIME + "MicroTimestamp"),
    "microseconds": (_TIME + "Date", _TIME + "MicroTime", _TIME + "MicroTimestamp"),
    "nanoseconds": (_TIME + "Date", _TIME + "NanoTime", _TIME + "NanoTimestamp"),
    "connect": (_CONNECT + "Date", _CONNECT + "Time", _CONNECT + "Timestamp"),
    "isostring": (ISO_DATE, ISO_TIME, ISO_TIMESTAMP),
}
"""Debezium's time.precision.mode: how dates, times of the day and timestamps come."""
_KINDS = {"int": "int32", "long": "int64", "binary": "bytes"}
_BY_MEANING = {
    **dict.fromkeys(DATES, "int32"),
    **dict.fromkeys((*TIMES, *TIMESTAMPS), "int64"),
    **dict.fromkeys((ISO_DATE, ISO_TIME, ISO_TIMESTAMP, ZONED_TIMESTAMP, UUID), "string"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """How values come without a schema: the connector's settings."""

    decimals: str = "precise"
    times: str = "adaptive"
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Debezium's name for what a column holds, where it is not the usual one."""

    def __post_init__(self) -> None:
        if self.decimals not in DECIMALS:
            raise ConfigError(
                f"decimals cannot be {self.decimals!r}",
                hint=f"Say one of: {', '.join(DECIMALS)}.",
                about="decimals",
            )
        if self.times not in PRECISIONS:
            raise ConfigError(
                f"times cannot be {self.times!r}", hint=f"Say one of: {', '.join(PRECISIONS)}.", about="times"
            )
        for column, meaning in self.meanings.items():
            if meaning not in _BY_MEANING:
                raise ConfigError(
                    f"column {column!r}: {meaning!r} is no name of a value of Debezium's",
                    hint=f"There are: {', '.join(_BY_MEANING)}.",
                )

    def field(self, name: str, kind: str) -> Field:
        """The field of a column with this type."""
        if (meaning := self.meanings.get(name)) is not None:
            return Field(name, _BY_MEANING[meaning], meaning)
        return self._field(name, parse_type(kind))

    def _field(self, name: str, kind: Type) -> Field:
        match kind:
            case Plain(word):
                meaning = self._meaning(word)
                return Field(name, _BY_MEANING.get(meaning) or _KINDS.get(word, word), meaning)
            case Decimal(precision, scale):
                return self._decimal(name, precision, scale)
            case List(element):
                return Field(name, "array", inside=(self._field("element", element),))
            case Map(key, value):
                return Field(name, "map", inside=(self._field("key", key), self._field("value", value)))
            case Struct(fields):
                return Field(name, "struct", inside=tuple(self._field(*one) for one in fields))

    def _meaning(self, word: str) -> str:
        date, time, timestamp = PRECISIONS[self.times]
        names = {"date": date, "time": time, "timestamp": timestamp, "timestamptz": ZONED_TIMESTAMP}
        return {**names, "uuid": UUID}.get(word, "")

    def _decimal(self, name: str, precision: int, scale: int) -> Field:
        if self.decimals == "precise":
            return Field(name, "bytes", ANY_DECIMAL, scale, precision)
        return Field(name, "string" if self.decimals == "string" else "double")
