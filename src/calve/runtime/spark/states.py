"""States: what a source has begun and not ended, such as transactions, after each micro-batch.

    <checkpoint>/calve/states/<micro-batch>-<digest of its offsets>.json

A state follows from the messages of a micro-batch and the state before it, and from nothing else: whichever
run computes it writes the same, so that no run can take it from another. The digest tells a micro-batch from
another that had its number before an older checkpoint was restored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calve.model.errors import Diverged
from calve.runtime.spark.files import CheckpointFiles
from calve.runtime.spark.run import offset_log

_FOLDER = "calve/states"
_VERSION = 1
_KEPT = 100
"""As many as Spark keeps offsets of."""


@dataclass(frozen=True, slots=True)
class States:
    """Around one micro-batch."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]


def keep_state(files: CheckpointFiles, micro_batch: int, state: Mapping[str, Any]) -> None:
    """Write the state after a micro-batch, unless it was written, and forget old ones."""
    name = _name(files, micro_batch)
    known = files.names(_FOLDER)
    if name not in known:
        files.write_new(
            f"{_FOLDER}/{name}", json.dumps({"version": _VERSION, "state": state}, sort_keys=True)
        )
    for old in known:
        if int(old.partition("-")[0]) < micro_batch - _KEPT:
            files.delete(f"{_FOLDER}/{old}")


def read_state(files: CheckpointFiles, micro_batch: int) -> Mapping[str, Any]:
    """The state after a micro-batch."""
    name = _name(files, micro_batch)
    text = files.read(f"{_FOLDER}/{name}")
    try:
        body = json.loads(text or "")
        if body["version"] != _VERSION:
            raise ValueError("of another version")
        state: Mapping[str, Any] = body["state"]
    except (KeyError, TypeError, ValueError) as error:
        raise Diverged(
            f"{_FOLDER}/{name} of the checkpoint is gone or cannot be read: {error!r}",
            hint="Restore the whole checkpoint folder, calve/ included, or begin with a new checkpoint at or "
            "before the tables' frontier.",
        ) from error
    return state


def _name(files: CheckpointFiles, micro_batch: int) -> str:
    text = files.read(f"offsets/{micro_batch}")
    if text is None:
        raise Diverged(
            f"the checkpoint has no offsets/{micro_batch}, which Spark writes before anything else",
            hint="Is checkpointLocation the folder that the query was started with?",
        )
    return f"{micro_batch:010d}-{offset_log(text, files).digest[:16]}.json"
