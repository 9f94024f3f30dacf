"""Infer: columns of topics that nobody declared, from the first data file of each. On the driver.

    the first files of the feed ──the first rows of each──▶ kinds of values ──▶ SourceTable, with a warning

A guess is a guess: JSON tells a number from a text, and no more. Whole numbers become `long`, others
`double`, true and false `boolean`, texts `string`. The key is known by its values: those columns that have
them in every row, where that is one choice alone. A topic with objects, arrays or kinds that mix is not
guessed at: it stays undeclared, and its rows come as text. Parquet files say their types themselves, and are
not looked at here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from calve.source.cockroachdb.lines import blocks
from calve.source.cockroachdb.names import DataFile, parse_name
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.cockroachdb.reader import opened
from calve.store.listing import list_after

if TYPE_CHECKING:
    from calve.config.columns import SourceTable

FILES_MAX = 1000
ROWS_MAX = 1000

_log = logging.getLogger(__name__)


def infer_tables(plan: ReadPlan) -> dict[str, SourceTable]:
    """What the first files of a feed show of topics that the plan does not declare."""
    found: dict[str, SourceTable | None] = {table.topic: None for table in plan.tables}
    for path in islice(list_after(plan.url, "", plan.access), FILES_MAX):
        file = parse_name(path)
        wanted = isinstance(file, DataFile) and (plan.topics is None or file.topic in plan.topics)
        if isinstance(file, DataFile) and wanted and file.topic not in found and file.kind != ".parquet":
            rows = _sample(file, plan)
            if rows:
                found[file.topic] = _table(rows, file)
    return {topic: table for topic, table in found.items() if table is not None}


def _sample(file: DataFile, plan: ReadPlan) -> list[Mapping[str, Any]]:
    """The first rows of a file, but for what is no row: whoever reads it will tell."""
    rows: list[Mapping[str, Any]] = []
    with opened(file, plan) as stream:
        block = next(blocks(stream, plan.block_bytes, file.path), None)
    for line in [] if block is None else block.text.split(b"\n")[:ROWS_MAX]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("after"), dict):
            rows.append(row)
    return rows


def _table(rows: list[Mapping[str, Any]], file: DataFile) -> SourceTable | None:
    from calve.config.columns import SourceColumn, SourceTable

    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row["after"].items():
            kinds.setdefault(name, set()).add(_kind(value))
    types = {name: _type(found - {"null"}) for name, found in kinds.items()}
    if None in types.values():
        _log.warning("topic %s was not declared, and nothing is guessed: %s", file.topic, file.path)
        return None
    key = _key(rows)
    guesses = ", ".join(f"{name} {kind}" for name, kind in types.items())
    _log.warning(
        "topic %s was not declared; guessed from %s: %s; key (%s)",
        file.topic,
        file.path,
        guesses,
        ", ".join(key),
    )
    columns = tuple(SourceColumn(name, str(kind), name in key) for name, kind in types.items())
    return SourceTable(columns, tuple(key), tuple(types))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if -(2**63) <= value < 2**63 else "double"
    return {float: "double", str: "string"}.get(type(value), "nested")


def _type(kinds: set[str]) -> str | None:
    if kinds == {"long", "double"}:
        return "double"
    if len(kinds) > 1 or "nested" in kinds:
        return None
    return kinds.pop() if kinds else "string"


def _key(rows: list[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for at in range(len(rows[0].get("key") or ())):
        fitting = [
            name
            for name in rows[0]["after"]
            if name not in found and all(row["after"].get(name) == row["key"][at] for row in rows)
        ]
        if len(fitting) != 1:
            return []
        found += fitting
    return found
