"""A folder that a stream reads, and rounds of files that appear in it all at once.

A round is a folder that is filled beside the one that is watched and then renamed into it, so that no
listing ever sees half of it. Files are linked, not copied: a round costs no memory, and the same data can
be fed again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Feed:
    """The source of one stream: Parquet files."""

    folder: Path
    rounds: int = 0

    def __post_init__(self) -> None:
        self._watched.mkdir(parents=True)

    @property
    def _watched(self) -> Path:
        return self.folder / "rounds"

    def add(self, files: Sequence[Path]) -> None:
        """Let so many files appear at once."""
        staged = self.folder / f"round-{self.rounds}"
        staged.mkdir()
        for number, file in enumerate(files):
            os.link(file, staged / f"{self.rounds:05d}-{number:05d}.parquet")
        staged.rename(self._watched / staged.name)
        self.rounds += 1

    def stream(self, session: Any, schema: Any, files_a_micro_batch: int | None = None) -> Any:
        """A streaming frame of all rounds, those to come included."""
        reader = session.readStream.schema(schema)
        if files_a_micro_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_a_micro_batch)
        return reader.parquet(f"{self._watched}/*")
