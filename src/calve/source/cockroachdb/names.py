"""Names: what the name of a file in a changefeed's bucket says.

    2026-11-16/ 202611161200000000000000000000000 - 3f0c… - 1 - 7 - 0000002a - my-topic - 1f .ndjson.gz
    folder      ts: a lower bound of its rows      session node sink file id   topic     schema

    2026-11-16/ 202611161201000000000000000000000 .RESOLVED

A topic may have dashes, so a name is read from both ends. `-` sorts before `.`: in lexical order a RESOLVED
file stands behind all data files with its ts. Nothing here counts on how long a ts is.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from calve.model.errors import BadMessage, ConfigError

RESOLVED = ".RESOLVED"
KINDS = (".ndjson", ".ndjson.gz", ".ndjson.zst", ".parquet")
"""A Parquet file has no more to its name when it is compressed: that is within the file."""

_OTHER_FORMATS = (".csv", ".csv.gz", ".csv.zst")
_DATA = re.compile(
    r"(?P<ts>[0-9]{24,})-[^-/]+-[0-9]+-[0-9]+-[0-9a-f]{8,}-(?P<topic>.+)-(?P<schema>[0-9a-f]+)", re.ASCII
)
_TS = re.compile(r"([0-9]{14})([0-9]{9})([0-9]{1,10})", re.ASCII)
_LOGICAL_RANGE = 10**10
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows."""

    path: str
    topic: str
    schema: int
    """Changes with the table's columns: all rows of a file have the same ones."""
    kind: str
    """One of `KINDS`."""


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """A promise: no change at or before `time` is still to come."""

    path: str
    time: int


def parse_name(path: str) -> DataFile | ResolvedFile | None:
    """What a path below the feed's folder is; `None` for what is no file of a changefeed."""
    name = path.rpartition("/")[2]
    if name.endswith(RESOLVED):
        return ResolvedFile(path, parse_ts(name.removesuffix(RESOLVED), path))
    if not name[:14].isdecimal() or len(name) < 24:
        return None  # somebody else's: a marker of another tool, a file that is being written
    if name.endswith(_OTHER_FORMATS):
        raise ConfigError(
            f"the file {path} is CSV, which says neither what was deleted nor when",
            hint="Create the changefeed with format = json or format = parquet.",
        )
    kind = next((kind for kind in reversed(KINDS) if name.endswith(kind)), None)
    match = None if kind is None else _DATA.fullmatch(name.removesuffix(kind))
    if kind is None or match is None:
        raise BadMessage(
            f"the file {path} is named as no file of a changefeed is",
            hint="Names read <ts>-<session>-<node>-<sink>-<file>-<topic>-<schema>, then .ndjson, .ndjson.gz, "
            ".ndjson.zst or .parquet. Move it out of the folder, or point the source elsewhere.",
        )
    return DataFile(path, match["topic"], int(match["schema"], 16), kind)


def parse_ts(text: str, path: str) -> int:
    """`YYYYMMDDHHMMSS`, nine digits of nanoseconds and the logical part, as a time."""
    match = _TS.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        wall = dt.datetime.strptime(match[1] + "+0000", "%Y%m%d%H%M%S%z") - _EPOCH
    except ValueError:
        raise BadMessage(
            f"the file {path} has no timestamp in its name",
            hint="RESOLVED files are named <YYYYMMDDHHMMSS><nanoseconds><logical>.RESOLVED. Is it one of the "
            "changefeed's? Move it out of the folder if it is not.",
        ) from None
    nanoseconds = (wall.days * 86_400 + wall.seconds) * 10**9 + int(match[2])
    return nanoseconds * _LOGICAL_RANGE + int(match[3])


def format_ts(time: int) -> str:
    """The inverse of `parse_ts`."""
    wall, logical = divmod(time, _LOGICAL_RANGE)
    seconds, nanoseconds = divmod(wall, 10**9)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    return f"{moment:%Y%m%d%H%M%S}{nanoseconds:09d}{logical:010d}"
