"""Stash: what a query keeps beside its checkpoint between micro-batches, and which run may say so.

    <checkpoint>/calve/
        stash/0000000007-3-0.json     the manifest of micro-batch 7, by generation 3, its first attempt
        outbox/7-<uuid>.jsonl         batches whose files are closed (outbox.py)
        segments/7-<uuid>/…           rows whose batch is not closed yet, Parquet written by Spark

A manifest is written when all that it names is there, and before anything of it is committed: after a
crash the micro-batch that Spark sends again finds it, and commits what is ready instead of writing it again.
It names the manifest that it follows. So a chain of one run is never continued with the links of another: a
driver that was fenced may still write manifests, but under its own generation, which is lower, and on its own
chain (case 63).

The last micro-batch that was committed and the one before it are kept: Spark sends the last one again, and
its rows are placed from the state before it. Segments and outboxes go when no kept manifest names them; what
runs that were killed left without a name goes with the first commits of the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from calve.model.errors import Diverged

_VERSION = 1
_FOLDER = "calve/stash"
OUTBOX, SEGMENTS = "calve/outbox", "calve/segments"
"""Names in them begin with the number of a micro-batch."""
_TIMES = ("frontier", "closed", "placed", "interval", "published", "until")


class Files(Protocol):
    """Small files beside a checkpoint."""

    def read(self, name: str) -> str | None: ...

    def write_new(self, name: str, text: str) -> None: ...

    def names(self, folder: str) -> list[str]: ...

    def delete(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of one micro-batch that wait: `lower <= time < upper`."""

    path: str
    lower: int
    upper: int
    rows: int
    columns: str = ""
    """Which columns it has: equal for segments that can be read as one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row of the quarantine is."""

    batch: int
    """The upper of the batch that brought it."""
    id: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a query knows after a micro-batch, all but what the table itself remembers."""

    micro_batch: int
    generation: int
    attempt: int
    offsets: str
    """A digest of what the source delivered: the same micro-batch has the same."""
    follows: str | None = None
    """The manifest of the micro-batch before."""
    frontier: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)
    table: str | None = None
    """The uuid of the table: of another one the manifest says nothing."""
    closed: int = 0
    """The stream has closed everything before it. What the table has may be more, and is not counted here."""
    placed: int = 0
    """Everything before it is in files; the rest waits in segments."""
    interval: int | None = None
    """The commit interval under which files of open batches were written."""
    published: int = 0
    """The table's frontier once the batches of this micro-batch are committed."""
    segments: tuple[Segment, ...] = ()
    waiting: tuple[str, ...] = ()
    """Outboxes with files of batches that are still open."""
    ready: str | None = None
    """The outbox of the batches that this micro-batch closed."""
    quarantine: str | None = None
    """The outbox of the rows that did not fit."""
    delivered: Mapping[str, str] = field(default_factory=dict)
    """The last position of each partition of the source, where changes have positions."""
    quarantined: int | None = None
    """The quarantine's frontier once they are committed. What it has beyond, the checkpoint does not know."""
    ahead: tuple[Place, ...] = ()
    """Rows beyond what the checkpoint knew that have not come again yet."""
    resumed: bool = False
    """A stop lay before it, and one batch caught up with all that had been closed since."""
    until: int | None = None
    """The run was to end here, and what is later was left to the next: see `Pipeline.take`."""

    @property
    def name(self) -> str:
        return f"{self.micro_batch:010d}-{self.generation}-{self.attempt}.json"

    @property
    def uses(self) -> frozenset[str]:
        """All that must not be deleted as long as this manifest counts."""
        outboxes = {*self.waiting, self.ready, self.quarantine} - {None}
        return frozenset(str(name) for name in outboxes) | {segment.path for segment in self.segments}

    def to_json(self) -> str:
        body = asdict(self)
        # Times have up to 38 digits: text, because many JSON readers keep only 53 bits.
        for name in _TIMES:
            body[name] = None if body[name] is None else str(body[name])
        body["marks"] = {partition: str(time) for partition, time in self.marks.items()}
        for segment in body["segments"]:
            segment |= {"lower": str(segment["lower"]), "upper": str(segment["upper"])}
        return json.dumps({"version": _VERSION, **body}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, name: str) -> Manifest:
        try:
            body = json.loads(text)
            if not isinstance(body, dict) or body.pop("version") != _VERSION:
                raise ValueError("of another version")
            return cls(**_decoded(body))
        except (KeyError, TypeError, ValueError) as error:
            raise Diverged(
                f"the stash manifest {name} cannot be read: {error!r}",
                hint="A newer release wrote it, or the file was changed. Use that release, or restore it.",
            ) from error


def _decoded(body: dict[str, Any]) -> dict[str, Any]:
    return {
        **body,
        **{name: None if body.get(name) is None else int(body[name]) for name in _TIMES},
        "marks": {partition: int(time) for partition, time in body["marks"].items()},
        "segments": tuple(
            Segment(**{**part, "lower": int(part["lower"]), "upper": int(part["upper"])})
            for part in body["segments"]
        ),
        "waiting": tuple(body["waiting"]),
        "ahead": tuple(Place(**place) for place in body.get("ahead", ())),
    }


class Stash:
    """The manifests of one query, as they were when this run began, and its own since."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._sweeps_left = 2  # the first commit may be of the micro-batch that a killed run was at
        self._manifests = [self._load(name) for name in files.names(_FOLDER) if name.endswith(".json")]

    @property
    def tables(self) -> frozenset[str]:
        """The uuids of the tables that something may have been committed to from this checkpoint."""
        return frozenset(one.table for one in self._manifests if one.table is not None and one.published)

    def before(self, micro_batch: int) -> Manifest | None:
        """What was known when a micro-batch began: the last word on the one before it."""
        return _last_word(self._of(micro_batch - 1))

    def of(self, micro_batch: int, follows: Manifest | None, offsets: str) -> Manifest | None:
        """What an earlier attempt at this micro-batch left, if it stands on the same state and rows."""
        name = None if follows is None else follows.name
        found = self._of(micro_batch)
        return _last_word([one for one in found if one.follows == name and one.offsets == offsets])

    def attempts(self, micro_batch: int, generation: int) -> int:
        """How many manifests a run has written for a micro-batch."""
        return sum(one.generation == generation for one in self._of(micro_batch))

    def save(self, manifest: Manifest) -> None:
        """Make a manifest count. All that it names is there already."""
        self._files.write_new(f"{_FOLDER}/{manifest.name}", manifest.to_json())
        self._manifests.append(manifest)

    def prune(self, kept: Manifest, generation: int) -> None:
        """Forget what neither a manifest nor the one that it follows names.

        Only after a commit of this micro-batch landed: it proves that no other run had claimed the sink, and
        one that does so from now on begins at this micro-batch or later. What a later generation wrote is
        not touched (63).
        """
        goes = [
            one
            for one in self._manifests
            if one.generation <= generation
            and one.micro_batch < kept.micro_batch
            and one.name != kept.follows
        ]
        stays = [one for one in self._manifests if one not in goes]
        used = frozenset[str]().union(*(one.uses for one in stays))
        goners = frozenset[str]().union(*(one.uses for one in goes))
        if self._sweeps_left:
            goners |= self._left_behind(kept.micro_batch)
            self._sweeps_left -= 1
        for name in sorted(goners - used):
            self._files.delete(name)
        for one in goes:  # last: a crash in between leaves the names of what is to be deleted
            self._files.delete(f"{_FOLDER}/{one.name}")
        self._manifests = stays

    def thin(self, kept: Manifest, generation: int) -> None:
        """Forget manifests that name nothing and are neither this one nor that which it follows: those of a
        table of which nothing comes while others of its stream go on."""
        goes = [
            one
            for one in self._manifests
            if one.generation <= generation
            and one.micro_batch < kept.micro_batch
            and one.name != kept.follows
            and not one.uses
        ]
        for one in goes:
            self._files.delete(f"{_FOLDER}/{one.name}")
        self._manifests = [one for one in self._manifests if one not in goes]

    def _left_behind(self, micro_batch: int) -> frozenset[str]:
        """What micro-batches before this one have in the folders. Runs that were killed left files there
        which no manifest names. A run that claims from now on has names of later micro-batches."""
        return frozenset(
            f"{folder}/{name}"
            for folder in (OUTBOX, SEGMENTS)
            for name in self._files.names(folder)
            if name.partition("-")[0].isdecimal() and int(name.partition("-")[0]) < micro_batch
        )

    def _of(self, micro_batch: int) -> list[Manifest]:
        return [one for one in self._manifests if one.micro_batch == micro_batch]

    def _load(self, name: str) -> Manifest:
        text = self._files.read(f"{_FOLDER}/{name}")
        if text is None:
            raise Diverged(
                f"the stash manifest {name} is gone while it was read",
                hint="Another run with the same checkpoint deletes it. Stop it, then start this one.",
            )
        return Manifest.from_json(text, name)


def _last_word(manifests: list[Manifest]) -> Manifest | None:
    """That of the run that fenced all others, and of its last attempt."""
    return max(manifests, key=lambda one: (one.generation, one.attempt), default=None)
