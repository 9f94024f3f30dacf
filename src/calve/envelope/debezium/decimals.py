"""Decimals: from the bytes of an unscaled number to a decimal, in Spark columns.

    base64 ──▶ bytes, big-endian, two's complement ──hex──▶ up to 18 digits: one long
                                                       └──▶ beyond: magnitude = high half * 2^64 + low half

Guarantee: a number that does not fit its column without a loss gives null, never another one. Spark's casts
from text round: what they give is compared with a cast that keeps all digits.
"""

from __future__ import annotations

from decimal import Decimal as Number

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.types import Decimal
from calve.config.types.tree import DIGITS_MAX

LONG_DIGITS = 18
_HALF_HEX = 16
_WIDE = T.DecimalType(DIGITS_MAX, 0)
_HALF = T.DecimalType(20, 0)


def from_bytes(raw: Column, scale: int, target: Decimal) -> Column:
    """A decimal from the bytes of its unscaled number, all of one scale."""
    digits = F.hex(raw)
    if target.precision > LONG_DIGITS or scale > LONG_DIGITS:
        return from_text(_with_point(_unscaled(digits), F.lit(scale)), target)
    sign = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
    # A minus before the base: what comes out is a number with a sign.
    number = F.conv(F.lpad(digits, _HALF_HEX, sign), 16, -10).try_cast("long")
    value = number.cast(T.DecimalType(19, 0)) * F.lit(Number(1).scaleb(-scale))
    fits = (F.length(digits) > 0) & (F.length(digits) <= _HALF_HEX)
    return F.when(fits, value.try_cast(T.DecimalType(target.precision, target.scale)))


def text_from_bytes(raw: Column, scale: Column) -> Column:
    """The digits of a number of any scale; null beyond 38 of them."""
    return _with_point(_unscaled(F.hex(raw)), scale)


def from_text(text: Column, target: Decimal) -> Column:
    """A decimal from its text; null where a digit would be lost."""
    value = text.try_cast(T.DecimalType(target.precision, target.scale))
    exact = text.try_cast(T.DecimalType(DIGITS_MAX, DIGITS_MAX - (target.precision - target.scale)))
    return F.when(value == exact, value)


def _unscaled(digits: Column) -> Column:
    """An integer from the hexadecimal digits of its two's complement; null beyond 38 decimal digits."""
    negative = F.substring(digits, 1, 1) >= "8"
    inverted = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    magnitude = F.lpad(F.when(negative, inverted).otherwise(digits), 2 * _HALF_HEX, "0")
    high = F.conv(F.substring(magnitude, 1, _HALF_HEX), 16, 10).try_cast(_HALF)
    low = F.conv(F.substring(magnitude, _HALF_HEX + 1, _HALF_HEX), 16, 10).try_cast(_HALF)
    number = F.try_add(F.try_multiply(high, F.lit(Number(2**64))), low).try_cast(_WIDE)
    # Of what is below zero all bits were turned, which is one less than its negative.
    signed = F.when(negative, F.try_subtract(F.negative(number), F.lit(Number(1)))).otherwise(number)
    return F.when(F.length(digits).between(1, 2 * _HALF_HEX), signed.try_cast(_WIDE))


def _with_point(number: Column, scale: Column) -> Column:
    """The text of an integer, its last digits behind the point."""
    sign = F.when(number < 0, "-").otherwise("")
    zeros = F.when(scale < 0, F.repeat(F.lit("0"), -scale)).otherwise("")
    plain = F.concat(F.abs(number).cast("string"), zeros)
    behind = F.greatest(scale, F.lit(0))
    digits = F.when(F.length(plain) > behind, plain).otherwise(F.lpad(plain, behind + 1, F.lit("0")))
    point = F.length(digits) - behind
    split = F.concat(F.substring(digits, F.lit(1), point), F.lit("."), F.substring(digits, point + 1, behind))
    return F.concat(sign, F.when(behind > 0, split).otherwise(digits))
