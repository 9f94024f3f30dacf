"""Rows of a subscription: texts in, record batches out, a column at a time.

    mz_timestamp, mz_progressed, mz_diff, columns…  ──Arrow's casts──▶  topic, at, mark, diff, row, error, raw

A value that its type does not take (`infinity`, for one) makes its row an error, never a row less (P8):
where a column cannot be cast as a whole, its values are cast one by one, to find which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import Carrier, carrier
from calve.model.errors import ConfigError

COMMON = [
    pa.field("topic", pa.string()),
    pa.field("at", pa.int64()),
    pa.field("mark", pa.int64()),
    pa.field("diff", pa.int64()),
    pa.field("error", pa.string()),
    pa.field("raw", pa.string()),
]
_META = 3
"""Columns of SUBSCRIBE before those of the relation."""


@dataclass(frozen=True)
class Shape:
    """The columns of a relation."""

    topic: str
    columns: tuple[tuple[str, str], ...]
    """Names, and types in Iceberg's notation."""

    def __post_init__(self) -> None:
        for name, kind in self.columns:
            if kind.startswith(("list<", "map<", "struct<")):
                raise ConfigError(
                    f"the column {name!r} is {kind}, which comes as Materialize's own text",
                    hint=f"Subscribe to a query that makes it JSON: SELECT …, to_jsonb({name}) AS {name}.",
                )

    @cached_property
    def carriers(self) -> tuple[Carrier, ...]:
        return tuple(carrier(name, kind) for name, kind in self.columns)

    @cached_property
    def row(self) -> pa.DataType:
        return pa.struct([pa.field(one.name, one.arrow) for one in self.carriers])

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMON, pa.field("row", self.row)])

    def changes(self, rows: Sequence[tuple[str | None, ...]]) -> pa.RecordBatch:
        """The rows that are changes; progress tells nothing here, because both bounds are known."""
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        if len(columns) != _META + len(self.columns):
            raise ConfigError(
                f"the subscription has {len(columns) - _META} columns, and {len(self.columns)} are known",
                hint="The relation was changed: start the stream again.",
            )
        progressed = pc.equal(columns[1], "t")
        texts = [column.filter(pc.invert(progressed)) for column in columns]
        errors = [pa.nulls(len(texts[0]), pa.string())]
        fields = [_cast(one, text, errors) for one, text in zip(self.carriers, texts[_META:], strict=True)]
        wrong = pc.coalesce(*errors)
        count = len(wrong)
        return pa.record_batch(
            [
                pa.repeat(pa.scalar(self.topic), count),
                texts[0].cast(pa.int64()),
                pa.nulls(count, pa.int64()),
                texts[2].cast(pa.int64()),
                wrong,
                _raw([name for name, _ in self.columns], texts[_META:], wrong),
                pa.StructArray.from_arrays(fields, fields=list(self.row)),
            ],
            schema=self.schema,
        )

    def mark(self, upper: int) -> pa.RecordBatch:
        """Nothing before `upper` is to come."""
        values = {"topic": self.topic, "mark": upper}
        return pa.RecordBatch.from_pylist([values], schema=self.schema)


def _cast(one: Carrier, texts: pa.Array, errors: list[pa.Array]) -> pa.Array:
    try:
        return _value(one, texts)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _one_by_one(one, texts, errors)


def _one_by_one(one: Carrier, texts: pa.Array, errors: list[pa.Array]) -> pa.Array:
    found: list[pa.Array] = []
    wrong: list[str | None] = []
    for number in range(len(texts)):
        text = texts.slice(number, 1)
        try:
            found.append(_value(one, text))
            wrong.append(None)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found.append(pa.nulls(1, one.arrow))
            wrong.append(f"column {one.name!r}: {str(text[0])[:80]} is no {one.type}")
    errors.append(pa.array(wrong, pa.string()))
    return pa.concat_arrays(found)


def _value(one: Carrier, texts: pa.Array) -> pa.Array:
    return one.finish(_AS_PRINTED[one.type](texts) if one.type in _AS_PRINTED else texts)


def _boolean(texts: pa.Array) -> pa.Array:
    true = pc.equal(texts, "t")
    if not pc.all(pc.or_(true, pc.equal(texts, "f"))).as_py() and texts.null_count < len(texts):
        raise pa.ArrowInvalid("neither t nor f")
    return true


def _number(texts: pa.Array) -> pa.Array:
    return pc.replace_substring(texts, "Infinity", "inf").cast(pa.float64())


_AS_PRINTED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "boolean": _boolean,
    "double": _number,
    "float": _number,
}
"""Types that PostgreSQL prints otherwise than Arrow reads them."""


def _raw(names: Sequence[str], texts: Sequence[pa.Array], wrong: pa.Array) -> pa.Array:
    """The rows with an error, as they came."""
    rows: list[str | None] = [None] * len(wrong)
    for number in pc.indices_nonzero(wrong.is_valid()).to_pylist():
        row = {name: text[number].as_py() for name, text in zip(names, texts, strict=True)}
        rows[number] = json.dumps(row, ensure_ascii=False)
    return pa.array(rows, pa.string())
