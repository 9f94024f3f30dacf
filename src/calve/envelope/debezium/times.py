"""Dates, times of the day and timestamps, from the numbers and texts that Debezium sends, in Spark columns.

Guarantee: what lies outside the years 1 to 9999, or outside a day, gives null and never another time: not all
readers of a table know such times, and Debezium sends an `infinity` as one number or another, or as text.
Nanoseconds are cut to microseconds, which is what Iceberg's types hold.
"""

from __future__ import annotations

from decimal import Decimal as Number

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.envelope import values
from calve.envelope.debezium.schema import DATES, MICROSECONDS, TIMES, TIMESTAMPS, Field

DAY = 86_400 * MICROSECONDS
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST, _LAST = _FIRST_DAY * DAY, (_LAST_DAY + 1) * DAY - 1
_MICROSECOND = Number("0.000001")


def date(field: Field, raw: Column) -> Column:
    if field.meaning in DATES:
        return F.when(raw.between(_FIRST_DAY, _LAST_DAY), F.date_from_unix_date(raw))
    return values.date(F.rtrim(raw, F.lit("Z")))


def timestamp(field: Field, raw: Column, *, zoned: bool, utc: bool) -> Column:
    """A moment, or what a clock without a zone shows. `utc`: the session's zone is UTC."""
    if field.meaning in TIMESTAMPS:
        micros = _micros(raw, TIMESTAMPS[field.meaning])
        fits = F.when(micros.between(_FIRST, _LAST), micros)
        return F.timestamp_micros(fits) if zoned else without_zone(fits, utc=utc)
    text = raw if zoned else F.rtrim(raw, F.lit("Z"))
    return values.instant(text, "timestamptz" if zoned else "timestamp")


def time(field: Field, raw: Column) -> Column:
    """Microseconds of the day."""
    if field.meaning in TIMES:
        micros = _micros(raw.cast("long"), TIMES[field.meaning])
        return F.when((micros >= 0) & (micros < DAY), micros)
    return values.time_of_day(F.rtrim(raw, F.lit("Z")))


def clock(micros: Column) -> Column:
    """Microseconds of the day as text."""
    seconds = (micros - micros % MICROSECONDS) / MICROSECONDS
    whole = seconds.cast("long")
    parts = [(whole / 3600).cast("long"), (whole / 60).cast("long") % 60, whole % 60]
    text = F.concat_ws(":", *(F.lpad(part.cast("string"), 2, "0") for part in parts))
    return F.when(
        micros.isNotNull(), F.concat(text, F.lit("."), F.lpad((micros % MICROSECONDS).cast("string"), 6, "0"))
    )


def _micros(raw: Column, units_a_second: int) -> Column:
    if units_a_second == MICROSECONDS:
        return raw
    if units_a_second < MICROSECONDS:
        # What overflows is out of every range.
        return F.try_multiply(raw, F.lit(MICROSECONDS // units_a_second))
    # What is finer is cut, towards the past: the division goes towards zero.
    cut = F.lit(units_a_second // MICROSECONDS).cast("long")
    is_cut = (raw < 0) & (F.pmod(raw, cut) != 0)
    return F.call_function("div", raw, cut) - F.when(is_cut, 1).otherwise(0)


def without_zone(micros: Column, *, utc: bool) -> Column:
    """What a clock without a zone shows. `utc`: the session's zone is UTC."""
    if utc:
        return F.timestamp_micros(micros).cast("timestamp_ntz")
    # A cast goes by the session's zone, where an hour comes twice a year.
    rest = F.pmod(micros, F.lit(DAY))
    midnight = F.date_from_unix_date(((micros - rest) / DAY).cast("int")).cast("timestamp_ntz")
    seconds = rest.cast(T.DecimalType(18, 0)) * F.lit(_MICROSECOND)
    return midnight + F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
