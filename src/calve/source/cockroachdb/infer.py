"""Infer: columns of topics that nobody declared, from the first data files of each. On the driver.

    the first files of the feed ──the first rows of each──▶ kinds of values ──▶ SourceTable, with a warning

What values tell, also of the key, is `config.infer`'s business. Parquet files are not looked at: they do not
say what the key is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from calve.source.cockroachdb.blocks import blocks
from calve.source.cockroachdb.names import DataFile, parse_name
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.cockroachdb.reader import opened
from calve.store.listing import list_after

if TYPE_CHECKING:
    from calve.config.columns import SourceTable

FILES_MAX = 1000
ROWS_MAX = 1000


def infer_tables(plan: ReadPlan) -> dict[str, SourceTable]:
    """What the first files of a feed show of topics that the plan does not declare."""
    from calve.config.infer import tells_key

    declared = {table.topic for table in plan.tables}
    rows: dict[str, list[Mapping[str, Any]]] = {}
    first: dict[str, DataFile] = {}
    for path in islice(list_after(plan.url, "", plan.access), FILES_MAX):
        file = parse_name(path)
        if not isinstance(file, DataFile) or file.kind == ".parquet" or file.topic in declared:
            continue
        wanted = plan.topics is None or file.topic in plan.topics
        if (
            wanted
            and not tells_key([row.get("key") for row in rows.get(file.topic, ())])
            and (some := _sample(file, plan))
        ):
            first.setdefault(file.topic, file)
            rows.setdefault(file.topic, []).extend(some)
    return {topic: _table(some, first[topic]) for topic, some in rows.items()}


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


def _table(rows: list[Mapping[str, Any]], file: DataFile) -> SourceTable:
    from calve.config.infer import infer, infer_key, warn_of_guesses

    found = infer((row["after"] for row in rows), infer_key([(row["after"], row.get("key")) for row in rows]))
    warn_of_guesses(found, f"topic {file.topic}, file {file.path}")
    return found
