"""Declared: what a user says of the tables of a feed, in whatever form it was said.

CREATE TABLE │ a column list │ a mapping of topics to them ──▶ SourceTable by topic ──▶ plans of files
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from calve.config.columns import SourceTable
from calve.config.layout import parse_columns
from calve.decode.tables import TopicPlan, make_tables
from calve.envelope.known import SETTINGS
from calve.envelope.read import columns_of
from calve.model.errors import ConfigError

_CREATE = re.compile(r"\s*(--.*\n\s*|/\*.*?\*/\s*)*create\b", re.IGNORECASE)


def settings_of(settings: Mapping[str, Any], topics: Sequence[str] | None) -> dict[str, Any]:
    known = {"other_columns", "job_id", "key", "transaction_topic", "transaction_tables", "compacted"}
    if unknown := [name for name in settings if name not in known]:
        raise ConfigError(
            f"there is no setting {unknown[0]!r} of this feed",
            hint=f"There are: {', '.join(sorted(known))}; of Debezium's messages {', '.join(SETTINGS)}.",
            about=unknown[0],
        )
    other = settings.get("other_columns", "refuse")
    if other not in ("refuse", "ignore"):
        raise ConfigError(
            f"other_columns cannot be {other!r}", hint="Say 'refuse' or 'ignore'.", about="other_columns"
        )
    if settings.get("compacted", "refuse") not in ("refuse", "allow"):
        raise ConfigError(
            f"compacted cannot be {settings['compacted']!r}",
            hint="Say 'refuse' or 'allow'.",
            about="compacted",
        )
    return {
        "ignores_columns": other == "ignore",
        "job_id": settings.get("job_id"),
        "keys": keys_of(settings.get("key"), topics),
    }


def keys_of(key: Any, topics: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Keys by topic: of the one topic, or of those that a mapping names."""
    if key is None:
        return {}
    if not isinstance(key, Mapping):
        if topics is None or len(topics) != 1:
            raise ConfigError(
                "a key is given for one table, and the feed may have several topics",
                hint="Give a mapping: key={'orders': ('id',), 'customers': ('id',)}.",
            )
        key = {topics[0]: key}
    return {str(topic): parse_columns(one, "key") for topic, one in key.items()}


def plans_of(tables: Mapping[str, SourceTable]) -> tuple[TopicPlan, ...]:
    """Tables as the reader of files takes them."""
    return make_tables(
        {topic: (columns_of(table), table.key) for topic, table in tables.items()},
        {topic: table.before_key for topic, table in tables.items()},
    )


def option_of(tables: Mapping[str, SourceTable]) -> str:
    """The same as an option of the source."""
    return json.dumps(
        {
            topic: {
                "columns": columns_of(table),
                "key": table.key,
                "before_key": table.before_key,
            }
            for topic, table in tables.items()
        }
    )


def tables_of(declared: object, topics: Sequence[str] | None) -> dict[str, SourceTable]:
    """Declared tables by topic."""
    if declared is None:
        return {}
    if isinstance(declared, Mapping):
        return {str(topic): _table(one) for topic, one in declared.items()}
    if topics is None or len(topics) != 1:
        raise ConfigError(
            "columns are declared for one table, and the feed may have several topics",
            hint="Give a mapping: tables={'orders': '…', 'customers': '…'}.",
        )
    return {topics[0]: _table(declared)}


def _table(declared: object) -> SourceTable:
    if isinstance(declared, SourceTable):
        return declared
    if isinstance(declared, str) and _CREATE.match(declared):
        return SourceTable.from_create_table(declared)
    return SourceTable.of(declared)
