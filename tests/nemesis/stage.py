"""A stage: the pipeline itself in this process, micro-batch by micro-batch, as a script wants it.

    script ──files, crashes, second runs──▶ Pipeline(frame, n) ──▶ table ──▶ checker

The part of Spark's streaming engine is played by the script: it writes `offsets/n` before a micro-batch,
sends the last one again after a crash, and may start a second run while the first is still there. Frames,
tasks and files are real. So a story of three crashes takes seconds, and two runs can be interleaved step by
step.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import calve
from calve.model.errors import CalveError
from calve.runtime.spark.pipeline import Pipeline
from calve.table.catalogs import open_catalog
from tests.nemesis.checker import Checker, Violation
from tests.nemesis.driver import columns_of, written
from tests.nemesis.kinds import Kind
from tests.nemesis.lakes import Lakes, local_lake, sink_id
from tests.nemesis.source import SPARK_SCHEMA, Change, Delivered, File

_QUERY_ID = "sql.streaming.queryId"


class Crash(BaseException):
    """The process is gone from here on."""


class Stage:
    """One table, its stream, and the runs of its query."""

    def __init__(self, spark: Any, duck: Any, folder: Path, kind: Kind, lakes: Lakes = local_lake) -> None:
        self.kind = kind
        self._spark, self._folder = spark, folder
        self.lake = lakes(folder, kind.name)
        self.delivered = Delivered(kind, folder / "source")
        self.checkpoints: dict[str, Checkpoint] = {}
        self._first = self.checkpoint("first")
        self.checker = Checker(
            kind, self.lake, self.delivered, duck, lambda: list(self._first.micro_batches.values())
        )

    def checkpoint(self, name: str) -> Checkpoint:
        """A checkpoint by its name; a new one if there is none."""
        if name not in self.checkpoints:
            self.checkpoints[name] = Checkpoint(self._folder / name)
        return self.checkpoints[name]

    def run(self, checkpoint: str = "first", replaces: str | None = None) -> Run:
        """Start the query: a new run, with the checkpoint that it had or another one."""
        stream = self._spark.readStream.schema(SPARK_SCHEMA).parquet(str(self.delivered.folder))
        at = self.checkpoint(checkpoint)
        writer = (
            written(calve.write_stream(columns_of(self.kind, stream)), self.kind)
            .catalog("lake", **self.lake.words)
            .option("checkpointLocation", str(at.folder))
        )
        if replaces is not None:
            writer = writer.replaces_checkpoint(self.checkpoint(replaces).id)
        asked = writer._asked(f"lake.{sink_id(self.lake)}")
        catalog = open_catalog(asked.config.sink.catalog)
        return Run(self, Pipeline(asked.config, asked.incoming, catalog), at)

    def frame(self, names: Sequence[str]) -> Any:
        """The rows of a micro-batch."""
        paths = [str(self.delivered.folder / name) for name in names]
        return columns_of(self.kind, self._spark.read.schema(SPARK_SCHEMA).parquet(*paths))

    def add(self, file: File) -> str:
        """Let the source deliver a file; its name."""
        self.delivered.add(file)
        return list(self.delivered.files)[-1]

    def back_up(self, checkpoint: str) -> Path:
        """A copy of a checkpoint as it is now."""
        copy = self._folder / f"copy of {checkpoint}"
        shutil.copytree(self.checkpoint(checkpoint).folder, copy)
        return copy

    def restore(self, checkpoint: str, copy: Path) -> None:
        """Put a copy in the place of a checkpoint."""
        shutil.rmtree(self.checkpoint(checkpoint).folder)
        copy.rename(self.checkpoint(checkpoint).folder)

    @contextmanager
    def query(self, id_: str) -> Iterator[None]:
        """What Spark's engine sets around a micro-batch."""
        context = self._spark.sparkContext
        context.setLocalProperty(_QUERY_ID, id_)
        try:
            yield
        finally:
            context.setLocalProperty(_QUERY_ID, None)

    def check(self, frontier: int | None = None) -> None:
        """Every snapshot is right; and the table has got this far."""
        progress = self.checker.check()
        self.checker.check_again()
        if frontier is not None and progress.frontier != frontier:
            raise Violation(f"the table is at {progress.frontier}, and should be at {frontier}")


class Checkpoint:
    """What Spark keeps of a query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = str(uuid.uuid4())
        self.micro_batches: dict[int, tuple[str, ...]] = {}
        (folder / "offsets").mkdir(parents=True)

    def plan(self, number: int, names: tuple[str, ...]) -> None:
        """Write down what a micro-batch has, before it begins."""
        self.micro_batches[number] = names
        lines = ("v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({"files": names}))
        (self.folder / "offsets" / str(number)).write_text("\n".join(lines))


class Run:
    """One run of the query, until it crashes or is refused."""

    def __init__(self, stage: Stage, pipeline: Pipeline, checkpoint: Checkpoint) -> None:
        self._stage, self._pipeline, self._checkpoint = stage, pipeline, checkpoint

    def send(self, number: int, *files: File | str) -> None:
        """A micro-batch with new files, or with those that it had before. It must not fail."""
        try:
            self._send(number, files)
        except CalveError as error:
            raise Violation(f"micro-batch {number} failed: {type(error).__name__}: {error}") from error

    def crashes(self, number: int, *files: File | str) -> None:
        """A micro-batch in which the process is lost."""
        try:
            self._send(number, files)
        except Crash:
            return
        raise Violation(f"micro-batch {number} never came to where it should crash")

    def refused(self, error: type[CalveError], number: int, *files: File | str) -> None:
        """A micro-batch that must be refused."""
        try:
            self._send(number, files)
        except error:
            return
        except CalveError as other:
            raise Violation(f"micro-batch {number} should be {error.__name__}, and is {other!r}") from other
        raise Violation(f"micro-batch {number} should be refused: {error.__name__}")

    def _send(self, number: int, files: Sequence[File | str]) -> None:
        names = tuple(file if isinstance(file, str) else self._stage.add(file) for file in files)
        if names:
            self._checkpoint.plan(number, names)
        frame = self._stage.frame(self._checkpoint.micro_batches[number])
        with self._stage.query(self._checkpoint.id):
            self._pipeline(frame, number)


@contextmanager
def crash(owner: Any, attribute: str, *, after: bool = False) -> Iterator[None]:
    """Lose the process at the first call of a function: before its effect, or after it."""
    original = getattr(owner, attribute)

    def lost(*arguments: Any, **named: Any) -> Any:
        if after:
            original(*arguments, **named)
        raise Crash(attribute)

    setattr(owner, attribute, lost)
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def file(*changes: Change, marks: Sequence[tuple[str, int]] = ()) -> File:
    return File(changes, tuple(marks))


def change(id_: int, at: int, op: str = "U") -> Change:
    """A change; its time is its identity."""
    return Change(at, id_, at, op, f"v{at}", "north" if at % 2 else "south")
