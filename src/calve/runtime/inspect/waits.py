"""Waits: what waits beside a checkpoint, read without Spark.

    <checkpoint>/metadata                                    which query it is
                /calve/stash/…, /calve/tables/<sink>/stash/…  what was kept of micro-batches (stash.py)
                /…/segments/…                                rows that wait

The manifest that counts is the last one of the highest generation: one of a run that was fenced may be of a
later micro-batch, and says nothing. Rows are not read: a manifest says how many there are. The checkpoint may
be changed while it is looked at: what was removed meanwhile counts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from calve.config.secret import redact
from calve.model.errors import ConfigError, Diverged, FileMissing
from calve.model.progress import Progress
from calve.protocol.replay import CHECKPOINT
from calve.runtime.inspect.result import Remark, Stashed
from calve.runtime.spark.stash import Manifest
from calve.store import Access, store_for
from calve.store.listing import list_after


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of a query's checkpoint."""

    folder: str
    access: Access
    is_said: bool = True
    """Else it is where a pipeline has it, of its own sink: it may not be there, or be out of reach."""

    def look(self, sink_id: str, progress: Progress | None) -> tuple[Stashed | None, tuple[Remark, ...]]:
        """What waits for a sink; and what is odd about the checkpoint."""
        query, place = self._query(), self._place(sink_id)
        if query is None and place is None and not self.is_said:
            return None, ()
        if query is None and place is None:
            raise ConfigError(
                f"{self._shown} holds no checkpoint of a query",
                hint="Give the folder that the query has as its checkpointLocation.",
            )
        remarks = _of_another(self._shown, query, progress)
        manifest = None if place is None else self._last(place)
        if manifest is None or place is None:
            return Stashed(query), remarks
        frontier = 0 if progress is None else progress.frontier
        stashed = Stashed(
            checkpoint=query,
            micro_batch=manifest.micro_batch,
            rows=sum(segment.rows for segment in manifest.segments),
            segments=len(manifest.segments),
            bytes=sum(self._sizes(f"{place}/{one.path.removeprefix('calve/')}" for one in manifest.segments)),
            least=min((segment.lower for segment in manifest.segments), default=None),
            files_of_open_batches=len(manifest.waiting),
            ready=manifest.ready is not None and manifest.published > frontier,
            closed=manifest.closed,
        )
        return stashed, remarks

    @property
    def _shown(self) -> str:
        return redact(self.folder)

    def _query(self) -> str | None:
        text = self._read("metadata")
        try:
            return None if text is None else str(json.loads(text)["id"])
        except (KeyError, TypeError, ValueError):
            return None

    def _place(self, sink_id: str) -> str | None:
        """Where what is kept of a sink lies: a feed has a folder for each."""
        for place in (f"calve/tables/{sink_id}", "calve"):
            if any(True for _ in self._names(f"{place}/stash")):
                return place
        return None

    def _last(self, place: str) -> Manifest | None:
        found = []
        for name in self._names(f"{place}/stash"):
            text = self._read(f"{place}/stash/{name}") if name.endswith(".json") else None
            if text is not None:
                found.append(Manifest.from_json(text, name))
        return max(found, key=lambda one: (one.generation, one.micro_batch, one.attempt), default=None)

    def _names(self, folder: str) -> Iterator[str]:
        names = list_after(self._location(folder), access=self.access)
        return (name for name in names if not name.rpartition("/")[2].startswith("."))

    def _sizes(self, folders: Iterator[str]) -> Iterator[int]:
        for folder in folders:
            for name in self._names(folder):
                location = self._location(f"{folder}/{name}")
                try:
                    yield store_for(location, self.access).size(location)
                except FileMissing:
                    yield 0

    def _read(self, name: str) -> str | None:
        location = self._location(name)
        try:
            with store_for(location, self.access).open(location) as file:
                return bytes(file.read()).decode("utf-8")
        except FileMissing:
            return None
        except UnicodeDecodeError as error:
            raise Diverged(
                f"{redact(location)} is no text",
                hint="It was changed. Restore the whole checkpoint folder, calve/ included.",
            ) from error

    def _location(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"


def _of_another(shown: str, query: str | None, progress: Progress | None) -> tuple[Remark, ...]:
    known = None if progress is None else progress.positions.get(CHECKPOINT)
    if known is None or query is None or known == query:
        return ()
    return (
        Remark(
            f"{shown} is the checkpoint of query {query}, and the sink was last written from {known}",
            "A query with this checkpoint is refused. Start it with the one that the sink knows.",
        ),
    )
