"""Topics: what a feed has learnt of the tables that it carries, kept beside the checkpoint.

<checkpoint>/calve/topics/<digest of the name>-<version>.json    written once; the highest version counts
<checkpoint>/calve/topic-ids/<digest of the name>.json           which topic of the name it was, where known
<checkpoint>/calve/selected/<version>.json                       the topics that are named
<checkpoint>/calve/places/<version>.json                         the source, where it is not a broker

A checkpoint says how far the source was read, for these topics and into these tables: another table, or a
topic that was passed over, would begin in the middle and claim to be the source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from calve.config.columns import SourceColumn, SourceTable
from calve.model.errors import Diverged, Overcompacted
from calve.runtime.spark.run import offset_log
from calve.runtime.spark.stash import Files

_FOLDER = "calve/topics"
_IDS = "calve/topic-ids"
_SELECTED = "calve/selected"
_PLACES = "calve/places"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a topic."""

    version: int
    table: SourceTable
    sink: str
    """The id of the sink that it is written by."""


def keep_topic(files: Files, name: str, kept: Kept) -> None:
    """Remember the columns of a topic, under the next version."""
    version, table = kept.version, kept.table
    body = {
        "version": _VERSION,
        "topic": name,
        "columns": [[one.name, one.type, one.required, one.is_json] for one in table.columns],
        "key": table.key,
        "guessed": table.guessed,
        "before_key": table.before_key,
        "sink": kept.sink,
    }
    files.write_new(f"{_FOLDER}/{_digest(name)}-{version:06d}.json", json.dumps(body, sort_keys=True))


def keep_id(files: Files, name: str, number: str) -> None:
    """Remember which topic a name stands for, or refuse another one than the offsets are of."""
    if not check_id(files, name, number):
        said = {"version": _VERSION, "topic": name, "id": number}
        files.write_new(f"{_IDS}/{_digest(name)}.json", json.dumps(said))


def check_id(files: Files, name: str, number: str) -> bool:
    """Refuse another topic of the name than the offsets are of; whether it is known which that is."""
    place = f"{_IDS}/{_digest(name)}.json"
    text = files.read(place)
    if text is None:
        return False
    try:
        known = json.loads(text)["id"]
    except (KeyError, TypeError, ValueError) as error:
        raise Diverged(
            f"{place} of the checkpoint cannot be read: {error!r}",
            hint="A newer release wrote it, or the file was changed. Use that release, or restore it.",
        ) from error
    if known != number:
        raise Overcompacted(
            f"topic {name!r} was deleted and made anew: the offsets up to which it was read are of another "
            "topic, and records between the two may be lost",
            hint="Nothing was written. Where the source sends everything again (a new changefeed, a new "
            "snapshot of the connector), go on with a new checkpoint (replaces_checkpoint); else restore it.",
        )
    return True


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def read_topics(files: Files) -> dict[str, Kept]:
    """All topics that are known."""
    found: dict[str, Kept] = {}
    for name in sorted(files.names(_FOLDER)):
        text = files.read(f"{_FOLDER}/{name}") or ""
        try:
            body = json.loads(text)
            if body["version"] != _VERSION:
                raise ValueError("of another version")
            columns = tuple(SourceColumn(*column) for column in body["columns"])
            table = SourceTable(columns, tuple(body["key"]), tuple(body["guessed"]), body["before_key"])
            version = int(name.removesuffix(".json").rpartition("-")[2])
            found[body["topic"]] = Kept(version, table, body["sink"])
        except (KeyError, TypeError, ValueError) as error:
            raise Diverged(
                f"{_FOLDER}/{name} of the checkpoint cannot be read: {error!r}",
                hint="A newer release wrote it, or the file was changed. Use that release, or restore it.",
            ) from error
    return found


def check_selected(files: Files, topics: Sequence[str] | None) -> None:
    """Refuse topics that were passed over so far; `None` are all that there are."""
    names = sorted(files.names(_SELECTED))
    before = json.loads(files.read(f"{_SELECTED}/{names[-1]}") or "null") if names else None
    new = [] if before is None else ["others"] if topics is None else sorted(set(topics) - set(before))
    if new:
        raise Diverged(
            f"so far the topics {', '.join(before or ())} were read, and {new[0]} was passed over: it "
            "would begin in the middle",
            hint="Read it by a feed of its own with a checkpoint of its own, or begin anew with all topics.",
        )
    now = None if topics is None else sorted(topics)
    if not names or now != before:
        files.write_new(f"{_SELECTED}/{len(names):06d}.json", json.dumps(now))


def check_place(files: Files, place: str) -> None:
    """Refuse another source than the offsets are of: a folder of files, a relation. Before Spark asks it what
    there is."""
    names = sorted(files.names(_PLACES))
    before = json.loads(files.read(f"{_PLACES}/{names[-1]}") or "null") if names else None
    if before == place:
        return
    if before is not None and files.names("offsets"):
        raise Diverged(
            f"so far this checkpoint was of {before}, and now it is {place}: what lies between the two would "
            "never be read",
            hint="Name the same source, or begin with a new checkpoint.",
        )
    files.write_new(f"{_PLACES}/{len(names):06d}.json", json.dumps(place))


def check_named(files: Files, topics: Sequence[str]) -> None:
    """Refuse to leave a topic of Kafka out that was read so far: Spark would take it for deleted, and as soon
    as its own log says so, it does not go on with the topic either."""
    numbers = [int(name) for name in files.names("offsets") if name.isdecimal()]
    text = files.read(f"offsets/{max(numbers)}") if numbers else None
    if text is None:
        return
    read = {name for line in offset_log(text, files).sources for name in json.loads(line)}
    if gone := sorted(read - set(topics)):
        raise Diverged(
            f"so far topic {gone[0]!r} was read by this checkpoint, and now it is not named",
            hint="Name it again. To go on without it, begin with a new checkpoint (replaces_checkpoint): its "
            "table stays as it is.",
        )


def check_sink(name: str, kept: Kept, sink: str) -> None:
    """Refuse a table that begins in the middle."""
    if kept.sink != sink:
        raise Diverged(
            f"the checkpoint was begun to write topic {name!r} to {kept.sink}, and now it is {sink}: that "
            "table would begin in the middle",
            hint="Write to the same table, or begin with a new checkpoint.",
        )


def carried(table: SourceTable) -> tuple[tuple[str, str], ...]:
    """The columns that come in a carrier (writer/carry.py)."""
    return tuple((column.name, column.type) for column in table.columns if column.type in ("uuid", "time"))
