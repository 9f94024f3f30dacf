"""Files of a CockroachDB changefeed as benchmarks have them: orders, a tenth of them deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from calve.model.time import format_hlc
from calve.source.cockroachdb.names import format_ts

START = 1_794_830_400 * 10**19
"""2026-11-16T12:00:00Z, as a time."""
SECOND = 10**19
DAY = 86_400 * SECOND
TOPIC = "orders"
COLUMNS = (
    ("id", "long"),
    ("customer", "string"),
    ("status", "string"),
    ("total", "decimal(12,2)"),
    ("weight", "double"),
    ("placed", "timestamptz"),
    ("paid", "boolean"),
    ("note", "string"),
)
KEY = ("id",)
TABLES = json.dumps({TOPIC: {"columns": COLUMNS, "key": KEY}})


def name_of(time: int, number: int, end: str = ".ndjson") -> str:
    """The path of a data file, in a folder a day."""
    text = format_ts(time)
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}/{text}-3f0c2d1e4b5a6978-1-1-{number:08x}-{TOPIC}-1{end}"


def resolved_name(time: int) -> str:
    return name_of(time, 0).partition("-3f0c")[0] + ".RESOLVED"


def write_feed(folder: Path, files: int, rows_a_file: int) -> list[Path]:
    """Files of rows, and one RESOLVED file behind them."""
    random = Random(6)
    written = []
    for number in range(files):
        path = folder / name_of(START, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        first = number * rows_a_file
        path.write_text("".join(_line(random, first + at) for at in range(rows_a_file)), encoding="utf-8")
        written.append(path)
    end = START + 3600 * SECOND
    (folder / resolved_name(end)).write_text(json.dumps({"resolved": format_hlc(end)}))
    return written


def paths_of(count: int) -> Sequence[str]:
    """Names of old files, a thousand a day, a RESOLVED file behind every nine."""
    found = []
    for number in range(count):
        time = START - DAY * (1 + (count - number) // 1000) + (count - number) % 1000
        found.append(resolved_name(time) if number % 10 == 9 else name_of(time, number))
    return [*sorted(found), resolved_name(START - 1)]


def _line(random: Random, number: int) -> str:
    total = random.randrange(10**7)
    after = {
        "customer": f"customer {random.randrange(10**5)}",
        "id": number,
        "note": "please leave it with the neighbours if nobody is at home" if number % 3 else None,
        "paid": number % 2 == 0,
        "placed": f"2026-11-16T12:{number % 60:02d}:07.{number % 10**6:06d}Z",
        "status": random.choice(("new", "packed", "sent", "returned")),
        "total": total / 100,
        "weight": random.random(),
    }
    updated = format_hlc(START + number)
    return (
        json.dumps({"after": None if number % 10 == 9 else after, "key": [number], "updated": updated}) + "\n"
    )
