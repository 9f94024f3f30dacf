"""Listing: which files are new, and how far the feed is resolved. Pure: a listing is an iterator of paths.

    floor        before          last
      │  read      │    read      │   not read yet             in lexical order of full paths
      ├──names─────┼───names──────┤
                   └──── the next listing begins here ─────▶

An offset holds the last RESOLVED file, the one before it, and the names of all files read beyond `floor`,
which was `before` of the offset that it followed. So the files of a micro-batch are `end.names -
start.names`: they follow from the two offsets alone, without a listing, whenever Spark replays them.

Guarantees. *Each file once*: what was read beyond `before` is remembered by name, and nothing before it is
listed. *A file that appears late* between `before` and `last` is read, and counted. *A RESOLVED file counts
only* in a listing that began after the file was first seen: a listing comes in pages, and a data file may
have been written between the page on which it would stand and the page with the RESOLVED file. A RESOLVED
file that sorts before the last one says nothing that is not known already, and is passed over: frontiers
never go back.

Not here: where listings come from (`store/listing.py`), what is in a file (`reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from calve.model.errors import Diverged, Overcompacted
from calve.source.cockroachdb.names import RESOLVED, DataFile, ResolvedFile, parse_name

VERSION = 1
FILES_MAX = 1000
"""Data files of a micro-batch, where the feed has more."""
NAMES_MAX = 1_000_000
"""Names that an offset may hold. A feed that never resolves would have it grow without an end."""

List = Callable[[str], Iterator[str]]
"""Paths beyond a path, in lexical order."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read."""

    names: frozenset[str] = frozenset()
    """Files read, data and RESOLVED, beyond `floor`."""
    floor: str = ""
    before: str = ""
    """The RESOLVED file before the last one: listings begin behind it."""
    last: str = ""
    """The last RESOLVED file that counts."""
    late: int = 0
    """Data files that appeared before a RESOLVED file which had been read, so far."""

    def as_json(self) -> dict[str, Any]:
        """For Spark's checkpoint. Names share long beginnings, which are said once."""
        return {
            "version": VERSION,
            "last": self.last,
            "before": self.before,
            "floor": self.floor,
            "late": self.late,
            "names": _squeeze(sorted(self.names)),
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Offset:
        if said.get("version") != VERSION:
            raise Diverged(
                f"the checkpoint has an offset of version {said.get('version')!r}, and this is {VERSION}",
                hint="Go on with the release of calve that wrote the checkpoint, or a newer one.",
            )
        names = frozenset(_stretch(said["names"]))
        return cls(names, said["floor"], said["before"], said["last"], said["late"])


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing showed that was not read."""

    data: tuple[DataFile, ...]
    resolved: tuple[ResolvedFile, ...]
    """Those beyond the last one that counts."""


def files_between(start: Offset, end: Offset) -> list[str]:
    """The files of a micro-batch, in order."""
    if start == end:
        return []
    if end.floor != start.before:
        raise Diverged(
            f"the offset up to {end.last or 'the start'} follows {end.floor or 'the start'}, and not the one "
            f"that ends at {start.last or 'the start'}",
            hint="The checkpoint was put together from two, or edited. Restore it as it was.",
        )
    return sorted(end.names - start.names)


def next_offset(offset: Offset, known: Collection[str], paths: List, files_max: int = FILES_MAX) -> Offset:
    """The offset that follows, by up to two listings: a second one where the first shows RESOLVED files that
    were not known. An offset without news is the one that was given."""
    listed = look(offset, paths(offset.before), files_max)
    if any(file.path not in known for file in listed.resolved):
        known = {file.path for file in listed.resolved}
        listed = look(offset, paths(offset.before), files_max)
    return advance(offset, listed, known, files_max)


def look(offset: Offset, paths: Iterator[str], files_max: int = FILES_MAX) -> Listed:
    """One listing, from `offset.before` on, as far as a micro-batch may reach."""
    data: list[DataFile] = []
    resolved: list[ResolvedFile] = []
    for path in paths:
        if path in offset.names:
            continue
        file = parse_name(path)
        if isinstance(file, DataFile):
            data.append(file)
            if files_max and len(data) > files_max:
                break
        elif file is not None and path > offset.last:
            resolved.append(file)
    return Listed(tuple(data), tuple(resolved))


def advance(offset: Offset, listed: Listed, known: Collection[str], files_max: int = FILES_MAX) -> Offset:
    """Decide what is read next. `known` are RESOLVED files that were seen before the listing began."""
    # One that counts vouches for those before it: all that they promise is part of what it does.
    final = [file.path for file in listed.resolved]
    while final and final[-1] not in known:
        final.pop()
    paths = [file.path for file in listed.data]
    late = [path for path in paths if path < offset.last]
    whole = [(end, [path for path in paths if path < end]) for end in final]
    fitting = [(end, files) for end, files in whole if not files_max or len(files) <= files_max]
    if fitting:
        end, files = fitting[-1]
        marks = [path for path in final if path <= end]
    elif files_max and len(paths) > files_max:
        # More than a micro-batch may hold before the next RESOLVED file: rows are read, in parts, and wait.
        files, marks = paths[:files_max], []
    else:
        files, marks = late, []
    if not files and not marks:
        return offset
    names = {name for name in offset.names if name > offset.before} | set(files) | set(marks)
    if len(names) > NAMES_MAX:
        raise Overcompacted(
            f"{len(names):,} files were read since {offset.before or 'the start'}, and no RESOLVED file came",
            hint="Create the changefeed WITH resolved: without RESOLVED files nothing is ever final.",
        )
    found = replace(
        offset,
        names=frozenset(names),
        floor=offset.before,
        late=offset.late + sum(path in late for path in files),
    )
    if marks:
        found = replace(found, last=marks[-1], before=marks[-2] if len(marks) > 1 else offset.last)
    return found


def start_after(path: str) -> Offset:
    """The offset of a stream that begins behind a RESOLVED file."""
    if not path:
        return Offset()
    if not isinstance(parse_name(path), ResolvedFile):
        raise Diverged(
            f"a stream can begin behind a RESOLVED file, and {path} is none",
            hint=f"Give the path of a RESOLVED file below the feed's folder; it ends with {RESOLVED}.",
        )
    return Offset(floor=path, before=path, last=path)


def _squeeze(names: list[str]) -> list[str]:
    """`<how many characters of the name before>~<the rest>`."""
    squeezed, previous = [], ""
    for name in names:
        pairs = enumerate(zip(previous, name, strict=False))
        shared = next((at for at, (a, b) in pairs if a != b), min(len(previous), len(name)))
        squeezed.append(f"{shared}~{name[shared:]}")
        previous = name
    return squeezed


def _stretch(squeezed: list[str]) -> Iterator[str]:
    previous = ""
    for entry in squeezed:
        shared, _, rest = entry.partition("~")
        previous = previous[: int(shared)] + rest
        yield previous
