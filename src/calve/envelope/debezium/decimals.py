"""Decimals: from the bytes of an unscaled number to a decimal, in Spark columns.

    base64 ──▶ bytes, big-endian, two's complement ──hex──▶ up to 18 digits: one long
                                                       └──▶ beyond: magnitude = high half * 2^64 + low half

Digits in hexadecimal are a column of their own before anything is made of them (`rows.py`): Spark repeats an
expression wherever it is used. Where that cannot be, `let` names a value inside of an expression.

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
from calve.envelope.messages import let
from calve.envelope.values import decimal

LONG_DIGITS = 18
_HALF_HEX = 16
_WIDE = T.DecimalType(DIGITS_MAX, 0)
_HALF = T.DecimalType(20, 0)


def hexadecimal(raw: Column) -> Column:
    """The digits of an unscaled number, from its bytes; null where there are none, or too many."""
    return F.when(F.octet_length(raw).between(1, _HALF_HEX), F.hex(raw))


def from_digits(digits: Column, scale: int, target: Decimal) -> Column:
    """A decimal from its hexadecimal digits, all of one scale."""
    if target.precision > LONG_DIGITS or scale > LONG_DIGITS:
        return from_text(text_from_digits(digits, F.lit(scale)), target)
    return (_long(digits) * F.lit(Number(1).scaleb(-scale))).try_cast(_type(target))


def with_own_scale(digits: Column, scale: Column, target: Decimal) -> Column:
    """A decimal from its hexadecimal digits, each with a scale of its own."""
    if target.precision > LONG_DIGITS:
        return from_text(text_from_digits(digits, scale), target)
    steps = [F.lit(Number(1).scaleb(-step)).cast(T.DecimalType(19, LONG_DIGITS)) for step in range(19)]
    value = _long(digits) * F.try_element_at(F.array(*steps), scale + 1)
    made = value.try_cast(_type(target))
    return F.when(made == value, made)


def _long(digits: Column) -> Column:
    """A number of up to 64 bits, from the hexadecimal digits of its two's complement."""
    sign = F.when(digits >= "8", "F").otherwise("0")
    # A minus before the base: what comes out is a number with a sign.
    number = F.conv(F.lpad(digits, _HALF_HEX, sign), 16, -10).try_cast("long")
    return F.when(F.length(digits) <= _HALF_HEX, number).cast(T.DecimalType(19, 0))


def _type(target: Decimal) -> T.DecimalType:
    return T.DecimalType(target.precision, target.scale)


def text_from_digits(digits: Column, scale: Column) -> Column:
    """The text of a number of any scale, from its hexadecimal digits; null beyond 38 decimal ones."""
    return let(let(digits, _unscaled), lambda number: _with_point(number, scale))


def from_text(text: Column, target: Decimal) -> Column:
    """A decimal from its text; null where a digit would be lost."""
    return let(text, lambda one: decimal(one, target))


def _unscaled(digits: Column) -> Column:
    """An integer from the hexadecimal digits of its two's complement; null beyond 38 decimal digits."""
    negative = digits >= "8"
    inverted = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    magnitude = F.lpad(F.when(negative, inverted).otherwise(digits), 2 * _HALF_HEX, "0")
    high = F.conv(F.substring(magnitude, 1, _HALF_HEX), 16, 10).try_cast(_HALF)
    low = F.conv(F.substring(magnitude, _HALF_HEX + 1, _HALF_HEX), 16, 10).try_cast(_HALF)
    number = F.try_add(F.try_multiply(high, F.lit(Number(2**64))), low).try_cast(_WIDE)
    # Of what is below zero all bits were turned, which is one less than its negative.
    least = F.when(number < F.lit(Number(10**DIGITS_MAX - 1)), F.negative(number) - F.lit(Number(1)))
    signed = F.when(negative, least).otherwise(number)
    return signed.try_cast(_WIDE)


def _with_point(number: Column, scale: Column) -> Column:
    """The text of an integer, its last digits behind the point."""
    behind = F.greatest(scale, F.lit(0))

    def split(plain: Column) -> Column:
        digits = F.when(F.length(plain) > behind, plain).otherwise(F.lpad(plain, behind + 1, F.lit("0")))
        return let(digits, lambda all_: _split(all_, F.length(all_) - behind, behind))

    zeros = F.when(scale < 0, F.repeat(F.lit("0"), -scale)).otherwise("")
    sign = F.when(number < 0, "-").otherwise("")
    return F.concat(sign, let(F.concat(F.abs(number).cast("string"), zeros), split))


def _split(digits: Column, point: Column, behind: Column) -> Column:
    parts = F.substring(digits, F.lit(1), point), F.lit("."), F.substring(digits, point + 1, behind)
    return F.when(behind > 0, F.concat(*parts)).otherwise(digits)
