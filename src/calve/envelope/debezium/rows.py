"""Rows: what the parsed messages of some versions say, as Spark expressions.

    m0, m1, …: a message as each version parses it, null in all but its own ──▶ columns, op, position, error

With one version, which is the usual case, nothing is chosen between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceTable
from calve.config.types import Type
from calve.envelope.debezium import position
from calve.envelope.debezium.toast import Placeholder
from calve.envelope.debezium.values import Values
from calve.envelope.debezium.version import Version, type_of
from calve.envelope.exact import marked, marked_name, marked_type, plain
from calve.envelope.inside import has, holds
from calve.envelope.messages import let
from calve.envelope.types import spark_type
from calve.envelope.values import CORRUPT, Inside, infinite, is_float, is_lost, made, real
from calve.model.columns import RESERVED

COMMIT, LSN = "__calve_commit", "__calve_lsn"
"""The LSN of the last commit before an event, and its own."""
_OPS = ("c", "d", "r", "u")


@dataclass(frozen=True, slots=True)
class Rows:
    """What messages say of the rows of a table."""

    table: SourceTable
    versions: Sequence[Version]
    values: Values
    placeholder: Placeholder

    # ---------------------------------------------------------------- the message

    @property
    def names(self) -> list[str]:
        """The columns of parsed messages, one a version."""
        return [f"__calve_m{number}" for number in range(len(self.versions))]

    @property
    def source(self) -> Column:
        return self._of_all(lambda message: message["source"])

    @property
    def transaction(self) -> Column:
        return self._of_all(lambda message: message["transaction"])

    @property
    def code(self) -> Column:
        """Debezium's letter for what happened."""
        return self._of_all(lambda message: message["op"])

    @property
    def has_row(self) -> Column:
        return self._in_any("after")

    @property
    def has_old_row(self) -> Column:
        return self._in_any("before")

    def op(self) -> Column:
        """What happened, in our words; null where the letter says no change of a row."""
        code = self.code
        is_upsert = (code == "u") | (code == "r")
        return F.when(is_upsert, "upsert").when(code == "c", "insert").when(code == "d", "delete")

    def _of_all(self, part: Callable[[Column], Column]) -> Column:
        parts = [part(F.col(name)) for name in self.names]
        return F.coalesce(*parts) if len(parts) > 1 else parts[0]

    def _in_any(self, part: str) -> Column:
        return reduce(Column.__or__, (F.col(name)[part].isNotNull() for name in self.names))

    # ---------------------------------------------------------------- columns

    def raw(self, name: str) -> list[tuple[Version, Column]]:
        """A column as it came, in each version that has it: of the row; of the old one in a delete, where the
        key alone counts if there is one."""
        found = []
        for message, version in zip(self.names, self.versions, strict=True):
            if name not in version.fields:
                continue
            value = F.col(message)["after"].getField(name)
            if name in self.table.key or not self.table.key:
                old = F.col(message)["before"].getField(name)
                value = F.when(F.col(message)["op"] == "d", old).otherwise(value)
            found.append((version, value))
        return found

    def prepared(self) -> dict[str, Column]:
        """Columns that are to be selected first, because `column` and the order use them several times."""
        found = {COMMIT: position.commit_lsn(self.source), LSN: position.lsn(self.source)}
        for name in self.table.names:
            for number, (version, raw) in enumerate(self.raw(name)):
                made = self.values.prepared(version.fields[name], type_of(self.table, name), raw)
                if made is not None:
                    found[self._prepared_name(name, number)] = made
        return found

    def _prepared_name(self, name: str, number: int) -> str:
        return f"__calve_p{number}_{self.table.names.index(name)}"

    def called(self, name: str) -> str:
        """What a data column is called until all is said: a table may have a column `value`, too."""
        return f"{RESERVED}column_{self.table.names.index(name)}"

    def column(self, name: str) -> Column:
        """A data column."""
        kind, target = spark_type(self.table.column(name).type), type_of(self.table, name)
        made = []
        for number, (version, raw) in enumerate(self.raw(name)):
            field, before = version.fields[name], None
            if self.values.prepared(field, target, raw) is not None:
                before = F.col(self._prepared_name(name, number))
            made.append(self.values.column(field, target, raw, before).cast(kind))
        return F.coalesce(*made) if made else F.lit(None).cast(kind)

    def old_value(self, name: str) -> Column:
        """A column of the row before the change; null where it was not sent."""
        kind, target = spark_type(self.table.column(name).type), type_of(self.table, name)
        made = []
        for message, version in zip(self.names, self.versions, strict=True):
            if (one := version.fields.get(name)) is not None:
                raw = F.col(message)["before"].getField(name)
                value = self.values.column(one, target, raw).cast(kind)
                unsent = self.placeholder.is_in(one, raw)
                made.append(value if unsent is None else F.when(~unsent, value))
        return F.coalesce(*made) if made else F.lit(None).cast(kind)

    def unavailable(self, name: str) -> Column | None:
        """Whether the source did not send a column's value; `None` where it always does."""
        found = [(self.placeholder.is_in(version.fields[name], raw), raw) for version, raw in self.raw(name)]
        # A null is no placeholder, and says nothing in a comparison.
        said = [F.coalesce(one, F.lit(False)) for one, _ in found if one is not None]
        return F.greatest(*said) if len(said) > 1 else (said[0] if said else None)

    # ---------------------------------------------------------------- what is wrong

    def unread(self) -> list[Column]:
        """Texts about messages that are of no version, or do not fit theirs."""
        of_none = reduce(Column.__and__, (F.col(name).isNull() for name in self.names))
        corrupt = reduce(Column.__or__, (F.col(name)[CORRUPT].isNotNull() for name in self.names))
        # Where one value does not fit, the others are read all the same.
        no_json = F.when(corrupt & self.code.isNull(), F.lit("the message is no JSON object"))
        return [
            F.when(of_none, F.lit("this is no message of Debezium, or its schema was not seen")),
            *([no_json] if self.values.text else []),
            F.when(corrupt, F.lit("a value does not fit the column's type")),
        ]

    def misread(self) -> list[Column]:
        """Texts about values that cannot be read; `column` must have been selected before."""
        found = []
        for one in self.table.columns:
            for version, raw in self.raw(one.name):
                field, target = version.fields[one.name], type_of(self.table, one.name)
                wrong = self.values.is_wrong(field, target, raw, F.col(self.called(one.name)))
                if self.values.text and holds(target, is_float):
                    overflown = self._overflown(version, one.name, target)
                    wrong = overflown if wrong is None else wrong | overflown
                if wrong is not None:
                    if (unsent := self.placeholder.is_in(field, raw)) is not None:
                        wrong = wrong & ~unsent
                    found.append(F.when(wrong, F.lit(f"column {one.name!r}: its value is no {one.type}")))
        return found

    def _overflown(self, version: Version, name: str, target: Type) -> Column:
        """Whether a number came out infinite, by its text: `from_json` makes that of all that are too large.
        `Infinity` itself is a text."""
        row = version.row_type(self.table, self.values, (name,))
        kind = marked_type(T.StructType([T.StructField("before", row), T.StructField("after", row)]))
        texts = F.from_json(marked(version.body(F.col("value"))), kind)
        old, new = (texts[marked_name(part)][marked_name(name)] for part in ("before", "after"))
        text = F.when(self.code == "d", old).otherwise(new)
        inside = Inside(_leaf, marked_name, plain)
        is_number = let(text, lambda one: one.isNull() | is_lost(one, made(target, one, inside)))
        # Not by `and`, which Spark turns round.
        return F.when(has(target, F.col(self.called(name)), infinite), is_number).otherwise(F.lit(False))

    def not_sent(self) -> list[Column]:
        """Texts about values that the source did not send."""
        found = [(name, self.unavailable(name)) for name in self.table.names]
        return [F.when(one, F.lit(self.about_unsent(name))) for name, one in found if one is not None]

    @staticmethod
    def about_unsent(name: str) -> str:
        return (
            f"column {name!r}: the source did not send its value, which is long and did not change: "
            "ALTER TABLE … REPLICA IDENTITY FULL, or toast='keep'"
        )

    def without_key(self) -> list[Column]:
        about = "is null, and is part of the key"
        return [
            F.when(F.col(self.called(name)).isNull(), F.lit(f"column {name!r} {about}"))
            for name in self.table.key
        ]

    def strange(self, truncates: str) -> list[Column]:
        """Texts about messages that are no change of a row."""
        code, source = self.code, self.source
        connector = F.coalesce(source["connector"], F.lit("none"))
        truncate = (
            "the table was truncated at the source, which names no row: empty the table by hand, or say "
            "truncates='skip'"
        )
        reasons = [
            F.when(code.isNull(), F.lit("the message has no op: this is no message of Debezium")),
            F.when(
                ~connector.isin(*position.SUPPORTED),
                F.concat(
                    F.lit("the connector "), connector, F.lit(" is not supported: its order is not known")
                ),
            ),
            F.when((code != "d") & ~self.has_row, F.lit("the message has no `after`")),
            F.when((code == "d") & ~self.has_old_row, F.lit("a delete without `before`")),
        ]
        no_row = F.when(code == "t", F.lit(truncate)) if truncates == "refuse" else F.lit(None).cast("string")
        unknown = F.concat(F.lit("the op "), code, F.lit(" is not known"))
        return [no_row, F.when(~code.isin(*_OPS, "t"), unknown), *reasons]


def _leaf(kind: Type, text: Column) -> Column:
    return real(plain(text), str(kind)) if is_float(kind) else plain(text)
