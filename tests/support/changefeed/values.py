"""Values of columns: made at random, and printed as CockroachDB prints them in JSON.

A row is a dict of Python values: int, float, Decimal, bool, str, bytes, uuid.UUID, datetime, date, time,
list, None.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

WORDS = (
    "",
    "plain",
    "with space",
    'quoted "word"',
    "back\\slash",
    "new\nline",
    "ünï – ₿",
    "[1, 2]",
    '{"key": [1]}',
    "NaN",
)


def make(kind: str, random: Random) -> Any:
    """A value of a type in Iceberg's notation."""
    if kind.startswith("list<"):
        return [make(kind[5:-1], random) for _ in range(random.randrange(3))]
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        digits = random.randrange(10 ** random.randint(1, precision))
        return Decimal(random.choice((1, -1)) * digits).scaleb(-scale)
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=random.randrange(10**15))
    made: dict[str, Any] = {
        "boolean": random.random() < 0.5,
        "int": random.randint(-(2**31), 2**31 - 1),
        "long": random.choice((0, -1, 2**63 - 1, -(2**63), random.randrange(10**9))),
        "float": float(random.randrange(-1000, 1000)) / 8,
        "double": random.choice((0.5, -2.25, 1e300, math.inf, -math.inf, random.random())),
        "date": moment.date(),
        "time": moment.time(),
        "timestamp": moment.replace(tzinfo=None),
        "timestamptz": moment,
        "string": random.choice((*WORDS, f"word {random.randrange(1000)}")),
        "uuid": uuid.UUID(int=random.getrandbits(128)),
        "binary": random.randbytes(random.randrange(5)),
    }
    return made[kind]


def printed(value: Any) -> str:
    """A value as JSON."""
    match value:
        case float() if math.isnan(value) or math.isinf(value):
            return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[str(value)]
        case Decimal():
            return str(value)  # 4E+2 and 0E-10 where that is how it prints
        case bytes():
            return json.dumps("\\x" + value.hex())
        case uuid.UUID():
            return json.dumps(str(value))
        case dt.datetime(tzinfo=None):
            return json.dumps(value.isoformat())
        case dt.datetime():
            return json.dumps(value.replace(tzinfo=None).isoformat() + "Z")
        case dt.date() | dt.time():
            return json.dumps(value.isoformat())
        case list() | tuple():
            return array(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def array(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(printed, values))}]"


def obj(fields: Mapping[str, Any]) -> str:
    """An object of values."""
    return raw_object({name: printed(value) for name, value in fields.items()})


def raw_object(fields: Mapping[str, str]) -> str:
    """An object of texts that are JSON already; in the order of names, as CockroachDB has it."""
    return "{" + ", ".join(f"{json.dumps(name)}: {fields[name]}" for name in sorted(fields)) + "}"
