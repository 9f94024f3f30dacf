"""Topics: what a feed has learnt of the tables that it carries, kept beside the checkpoint.

<checkpoint>/calve/topics/<digest of the name>-<version>.json    written once; the highest version counts
"""

from __future__ import annotations

import hashlib
import json

from calve.config.columns import SourceColumn, SourceTable
from calve.model.errors import Diverged
from calve.runtime.spark.stash import Files

_FOLDER = "calve/topics"
_VERSION = 1


def keep_topic(files: Files, name: str, version: int, table: SourceTable) -> None:
    """Remember the columns of a topic, under the next version."""
    body = {
        "version": _VERSION,
        "topic": name,
        "columns": [[column.name, column.type, column.required] for column in table.columns],
        "key": table.key,
        "guessed": table.guessed,
        "before_key": table.before_key,
    }
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    files.write_new(f"{_FOLDER}/{digest}-{version:06d}.json", json.dumps(body, sort_keys=True))


def read_topics(files: Files) -> dict[str, tuple[int, SourceTable]]:
    """All topics that are known, with the version of what is known of each."""
    found: dict[str, tuple[int, SourceTable]] = {}
    for name in sorted(files.names(_FOLDER)):
        text = files.read(f"{_FOLDER}/{name}") or ""
        try:
            body = json.loads(text)
            if body["version"] != _VERSION:
                raise ValueError("of another version")
            columns = tuple(SourceColumn(*column) for column in body["columns"])
            table = SourceTable(columns, tuple(body["key"]), tuple(body["guessed"]), body["before_key"])
            found[body["topic"]] = (int(name.removesuffix(".json").rpartition("-")[2]), table)
        except (KeyError, TypeError, ValueError) as error:
            raise Diverged(
                f"{_FOLDER}/{name} of the checkpoint cannot be read: {error!r}",
                hint="A newer release wrote it, or the file was changed. Use that release, or restore it.",
            ) from error
    return found


def carried(table: SourceTable) -> tuple[tuple[str, str], ...]:
    """The columns that come in a carrier (writer/carry.py)."""
    return tuple((column.name, column.type) for column in table.columns if column.type in ("uuid", "time"))
