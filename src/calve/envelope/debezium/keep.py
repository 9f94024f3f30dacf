"""Values that the source did not send, taken from the change of the key before (`toast.py` says when)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from calve.envelope.debezium.rows import Rows

NOT_SENT = "__calve_not_sent"


def kept(read: DataFrame, rows: Rows, order: Sequence[str]) -> DataFrame:
    """The frame with values for placeholders, and NOT_SENT where there is none to be had."""
    columns: dict[str, Column] = {}
    wrong = []
    for name in rows.table.names:
        missing = rows.unavailable(name)
        if missing is None:
            continue
        old = rows.old_value(name)
        has_old = old.isNotNull() & (rows.code == "u")
        last = _last(rows, name, missing, F.when(has_old, old), order)
        has_last = F.coalesce(last["known"], F.lit(False)) & (rows.code == "u")
        columns[rows.called(name)] = (
            F.when(~missing, F.col(rows.called(name))).when(has_old, old).when(has_last, last["value"])
        )
        wrong.append(F.when(missing & ~has_old & ~has_last, F.lit(rows.about_unsent(name))))
    nothing = F.lit(None).cast("string")
    return read.withColumns({**columns, NOT_SENT: F.coalesce(*wrong) if wrong else nothing})


def _last(rows: Rows, name: str, missing: Column, old: Column, order: Sequence[str]) -> Column:
    """What the changes of a key before one say of a column: its value, or that nobody knows it."""
    value = F.col(rows.called(name))
    lost = _says(False, F.when(F.lit(False), value))
    if not rows.table.key:
        return lost
    # An update without the value says nothing of it: the change before it counts.
    says = (
        F.when(rows.code == "d", lost)
        .when(~missing, _says(True, value))
        .when(old.isNotNull(), _says(True, old))
        .when(rows.code != "u", lost)
    )
    keys = [F.col(rows.called(key)) for key in rows.table.key]
    before = Window.partitionBy(*keys).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    return F.last(says, ignorenulls=True).over(before)


def _says(known: bool, value: Column) -> Column:
    return F.struct(F.lit(known).alias("known"), value.alias("value"))
