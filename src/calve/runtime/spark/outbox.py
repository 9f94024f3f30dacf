"""Outbox: batches whose files are closed, kept beside the checkpoint until they are in the table.

A line of JSON with the hash of all that follows, a line with the schema, then for each batch a line with what
it relies on and brings along, and a line for each of its files. Written before the commit: a run that is
started again commits these files instead of writing them again. No pickle; what was cut or changed is found
(case 61).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from calve.model.batch import Batch
from calve.model.errors import BadMessage, Diverged
from calve.model.file import FileClosed
from calve.runtime.spark.stash import OUTBOX, Files
from calve.table.build import Ready
from calve.table.premises import Premises, SchemaState

_VERSION = 1


class Outboxes:
    """The outboxes of one query. What was read once is kept: an outbox is never changed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, tuple[Ready, ...]] = {}

    def put(self, micro_batch: int, batches: Sequence[Ready]) -> str:
        """Keep batches in their order; the name of the outbox. Their files have one schema."""
        name = f"{OUTBOX}/{micro_batch}-{uuid.uuid4().hex}.jsonl"
        self._files.write_new(name, to_text(batches))
        self._known[name] = tuple(batches)
        return name

    def read(self, name: str) -> tuple[Ready, ...]:
        if name not in self._known:
            text = self._files.read(name)
            if text is None:
                raise Diverged(
                    f"the outbox {name} is gone, though a stash manifest names it",
                    hint="Restore the whole checkpoint folder, calve/ included.",
                )
            self._known[name] = from_text(text, name)
        return self._known[name]

    def forget(self, used: frozenset[str]) -> None:
        """Keep in memory only what is still named."""
        self._known = {name: batches for name, batches in self._known.items() if name in used}


def to_text(batches: Sequence[Ready]) -> str:
    lines = [_line(batches[0].schema.model_dump(mode="json", by_alias=True))]
    for ready in batches:
        lines.append(
            _line(
                {
                    "lower": str(ready.batch.lower),
                    "upper": str(ready.batch.upper),
                    "files": len(ready.files),
                    "premises": _premises(ready.premises),
                    "brings_schema": ready.brings_schema,
                    "brings_spec": None
                    if ready.brings_spec is None
                    else ready.brings_spec.model_dump(mode="json", by_alias=True),
                    "positions": ready.positions,
                    "summary": dict(ready.summary),
                }
            )
        )
        lines += (file.to_json() for file in ready.files)
    body = "\n".join(lines) + "\n"
    return _line({"version": _VERSION, "sha256": _sha256(body)}) + "\n" + body


def from_text(text: str, name: str) -> tuple[Ready, ...]:
    """What was kept. A text that was cut or changed is refused: then the batches are written again."""
    first, _, body = text.partition("\n")
    try:
        head = json.loads(first)
        if head["version"] != _VERSION:
            raise ValueError("of another version")
        if head["sha256"] != _sha256(body):
            raise ValueError("its hash is wrong")
        schema, *lines = body.splitlines()
        return tuple(_batches(iter(lines), Schema.model_validate_json(schema)))
    except (KeyError, TypeError, ValueError) as error:
        raise BadMessage(
            f"the outbox {name} cannot be read: {error!r}",
            hint="It was cut or changed, or another release wrote it. Remove the stash manifest that names "
            "it: its batches are written again.",
        ) from error


def _batches(lines: Iterator[str], schema: Schema) -> Iterator[Ready]:
    for line in lines:
        said = json.loads(line)
        spec = said["brings_spec"]
        yield Ready(
            batch=Batch(int(said["lower"]), int(said["upper"])),
            files=tuple(FileClosed.from_json(next(lines)) for _ in range(said["files"])),
            schema=schema,
            premises=_relied(said["premises"], schema),
            brings_schema=said["brings_schema"],
            brings_spec=None if spec is None else PartitionSpec.model_validate(spec),
            positions=said["positions"],
            summary=said.get("summary", {}),  # outboxes of older releases have none
        )


def _premises(premises: Premises | None) -> dict[str, Any] | None:
    if premises is None:
        return None
    state = premises.evolved_from
    return {
        "evolved_from": None if state is None else list(state),
        "empty": premises.empty,
        "only_spec": premises.only_spec,
        "new_spec": premises.new_spec,
    }


def _relied(said: dict[str, Any] | None, schema: Schema) -> Premises | None:
    if said is None:
        return None
    state = said["evolved_from"]
    return Premises(
        schema=schema,
        evolved_from=None if state is None else SchemaState(*state),
        empty=said["empty"],
        only_spec=said["only_spec"],
        new_spec=said["new_spec"],
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _line(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))
