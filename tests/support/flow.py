"""A flow: files of changes, a micro-batch each, through the pipeline into a table; and what it must show.

    put(rows) ──▶ file ──run()──▶ micro-batch ──▶ Pipeline ──▶ table
        └──────▶ sent ──truth_at(upper)──▶ rows ◀── compared ── every snapshot, by engines not ours

The truth is computed from the rows that were put, in plain Python: it knows neither frames nor files. A run
is a query of Spark that reads all files that are there and ends; what the pipeline raised in it is raised
here as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from calve.config.sink import SinkConfig
from calve.config.stream import FrontierKind, StreamConfig
from calve.model.progress import tag_name
from calve.runtime.coordinator import Coordinator
from calve.runtime.spark.columns import arrow_schema
from calve.runtime.spark.pipeline import Pipeline
from calve.runtime.spark.progress import SinkListener, SinkProgress
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import Reader, differences, read_snapshot, rows_of
from tests.support.truth import snapshots_of_main, summary_of
from tests.support.workload import DELETE_WORDS, INSERT_WORDS, table_of

Row = Mapping[str, Any]
Transform = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_FILE_S = 1_700_000_000
_QUERY_ID = "sql.streaming.queryId"


class Log(SinkListener):
    """All that was told."""

    def __init__(self) -> None:
        self.seen: list[SinkProgress] = []
        self.errors: list[str] = []

    def on_progress(self, progress: SinkProgress) -> None:
        self.seen.append(progress)

    def on_stopped(self, table: str, error: str) -> None:
        self.errors.append(error)


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot of main: the batch that it is, and what its summary says beside."""

    snapshot_id: int
    lower: int
    upper: int
    summary: Mapping[str, str]

    @property
    def bounds(self) -> tuple[int, int]:
        return self.lower, self.upper


@dataclass(slots=True)
class Flow:
    """One stream into one table."""

    spark: Any
    lake: Lake
    table: str
    folder: Path
    """Of the source and the checkpoint."""
    schema: pa.Schema
    """Of the files, with the op column and marks."""
    sink: dict[str, Any] = field(default_factory=dict)
    stream: dict[str, Any] = field(default_factory=dict)
    checkpoint: str = "checkpoint"
    sent: list[list[Row]] = field(default_factory=list)
    transform: Transform | None = None
    """What the user does with the stream before it is written."""

    # -- the source -------------------------------------------------------------------------------

    def put(self, *rows: Row, schema: pa.Schema | None = None) -> None:
        """One more file, which is one more micro-batch."""
        self.sent.append(list(rows))
        source = self.folder / "source"
        source.mkdir(parents=True, exist_ok=True)
        table = table_of(rows, list(schema or self.schema))
        path = source / f"{len(self.sent):04d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        # Spark takes files in the order of their times.
        os.utime(hidden, (_FIRST_FILE_S + len(self.sent),) * 2)
        hidden.rename(path)

    def frame(self, schema: pa.Schema | None = None, files: int = 1) -> Any:
        """The stream as Spark reads it."""
        from pyspark.sql.pandas.types import from_arrow_schema

        (self.folder / "source").mkdir(parents=True, exist_ok=True)
        spark_schema = from_arrow_schema(schema or self.schema, prefer_timestamp_ntz=True)
        reader = self.spark.readStream.schema(spark_schema)
        frame = reader.option("maxFilesPerTrigger", files).parquet(str(self.folder / "source"))
        return frame if self.transform is None else self.transform(frame)

    # -- the query --------------------------------------------------------------------------------

    def config(self, **changed: Any) -> StreamConfig:
        options = {
            "namespace": NAMESPACE,
            "table": self.table,
            "catalog": {
                "name": self.lake.name,
                "uri": f"sqlite:///{self.lake.catalog_file}",
                "warehouse": self.lake.warehouse,
            },
            **self.sink,
            **changed.pop("sink", {}),
        }
        stream = {"checkpoint": str(self.folder / self.checkpoint), **self.stream, **changed}
        return StreamConfig(sink=SinkConfig(**options), **stream)

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        catalog = SqlCatalog(
            self.lake.name, uri=f"sqlite:///{self.lake.catalog_file}", warehouse=self.lake.warehouse
        )
        try:
            yield catalog
        finally:
            catalog.close()

    def run(self, *, schema: pa.Schema | None = None, **how: Any) -> list[SinkProgress]:
        """All files that are there, each a micro-batch; what was told of them. What is neither the schema nor
        said by `How` changes the configuration."""
        said = {name: how.pop(name) for name in How.__slots__ if name in how}
        with self.catalog() as catalog:
            return self._run(catalog, schema, How(**said), how)

    def _run(
        self, catalog: SqlCatalog, schema: pa.Schema | None, how: How, changed: dict[str, Any]
    ) -> list[SinkProgress]:
        from pyspark.errors import StreamingQueryException

        frame, log = self.frame(schema, how.files), Log()
        config = self.config(**changed)
        pipeline = Pipeline(config, arrow_schema(frame.schema), catalog, watchers=[log])
        raised: list[BaseException] = []

        def call(part: Any, number: int) -> None:
            try:
                if how.micro_batches is not None and len(log.seen) >= how.micro_batches:
                    raise Ended(f"before micro-batch {number}")
                how.between.get(number, _nothing)()
                with _disturbed(how, number):
                    pipeline(part, number)
            except BaseException as error:
                raised.append(error)
                raise

        writer = frame.writeStream.foreachBatch(call).option("checkpointLocation", config.checkpoint)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            if raised and not isinstance(raised[0], Ended):
                raise raised[0] from None
            if not raised:
                raise
        return log.seen

    def by_hand(self) -> Driver:
        """A second driver on the same checkpoint, of which Spark does not know. Spark would end the first."""
        return Driver(self)

    @property
    def query_id(self) -> str:
        """The id that the checkpoint has."""
        return str(json.loads((self.folder / self.checkpoint / "metadata").read_text())["id"])

    # -- the truth --------------------------------------------------------------------------------

    def time_of(self, row: Row, micro_batch: int) -> int | None:
        column = self.stream.get("time_column")
        return micro_batch if column is None else number_of(row[column])

    def changes(self) -> Iterator[tuple[int, Row]]:
        """All changes with their times; marks are none."""
        mark = self.stream.get("mark_column")
        for number, rows in enumerate(self.sent):
            for row in rows:
                if mark is None or row.get(mark) is None:
                    time = self.time_of(row, number)
                    if time is not None:
                        yield time, row

    def truth_at(self, upper: int, without: Iterable[Row] = ()) -> list[Row]:
        """The rows that a table must show that has everything before `upper`."""
        left_out = [id(row) for row in without]
        changes = [(time, row) for time, row in self.changes() if time < upper and id(row) not in left_out]
        mode = self.sink.get("mode", "append")
        if mode == "append":
            return [row for _, row in changes]
        op = self.sink.get("op_column", "_op")
        if mode == "changelog":
            log: list[Row] = [
                {**row, "_calve_op": _word(row.get(op)), "_calve_time": time} for time, row in changes
            ]
            if not self.sink.get("key"):
                return log
            # With a key a change is one by key, time and op, however often it came.
            names = (*self.sink["key"], "_calve_time", "_calve_op")
            return list({tuple(row[name] for name in names): row for row in log}.values())
        order = self.sink.get("sequence_by", ())
        # Where there is no sequence, a key changes once a micro-batch: the time is the order.
        changes.sort(key=lambda change: (change[0], *(change[1][name] for name in order)))
        by_key: dict[tuple[Any, ...], Row] = {}
        for _, row in changes:
            key = tuple(row[name] for name in self.sink["key"])
            by_key.pop(key, None)
            if row.get(op) not in DELETE_WORDS:
                by_key[key] = row
        return list(by_key.values())

    def stored(self, schema: pa.Schema | None = None) -> pa.Schema:
        """The table's columns."""
        taken = {self.stream.get("mark_column")}
        mode = self.sink.get("mode", "append")
        if mode != "append":
            taken.add(self.sink.get("op_column", "_op"))
        fields = [one for one in (schema or self.schema) if one.name not in taken]
        if mode == "changelog":
            time = self.stream.get("time_column")
            wide = time is not None and pa.types.is_decimal(self.schema.field(time).type)
            fields.append(pa.field("_calve_op", pa.string()))
            fields.append(pa.field("_calve_time", pa.decimal128(38, 0) if wide else pa.int64()))
        return pa.schema(fields)

    # -- what is there ----------------------------------------------------------------------------

    def load(self) -> Table:
        return self.lake.load(self.table)

    def shown(self) -> list[Shown]:
        """The snapshots of main, oldest first."""
        found = []
        for snapshot in snapshots_of_main(self.load()):
            summary = summary_of(snapshot)
            bounds = int(summary["calve.lower"]), int(summary["calve.frontier"])
            if summary.get("calve.committed") != str(snapshot.snapshot_id):
                continue  # a claim, with the fence on main
            found.append(Shown(snapshot.snapshot_id, *bounds, summary))
        return found

    def check(
        self,
        *readers: Reader,
        without: Iterable[Row] = (),
        schema: pa.Schema | None = None,
        first_lower: int = 0,
    ) -> list[tuple[int, int]]:
        """Every snapshot of main shows the truth of its upper (P1), and they tile (P2); their bounds."""
        shown, like, without = self.shown(), self.stored(schema), list(without)
        frontier = first_lower
        for one in shown:
            assert one.lower == frontier, f"{one.bounds} follows {frontier}"
            assert one.upper > one.lower
            frontier = one.upper
            columns = self._columns_at(one.snapshot_id, like)
            truth = rows_of(table_of(self.truth_at(one.upper, without), list(columns)), columns)
            for reader in readers:
                seen = read_snapshot(reader, self.lake.at(self.table), one.snapshot_id, like=columns)
                assert seen == truth, f"{reader.name}, {one.bounds}: {differences(seen, truth)}"
        return [one.bounds for one in shown]

    def _columns_at(self, snapshot_id: int, like: pa.Schema) -> pa.Schema:
        """The columns that a snapshot has: a schema grows."""
        table = self.load()
        snapshot = table.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        known = table.schemas()[snapshot.schema_id or 0].column_names
        return pa.schema([one for one in like if one.name in known])

    # -- surgery on the checkpoint and the table --------------------------------------------------

    @property
    def place(self) -> Path:
        """The checkpoint's folder."""
        return self.folder / self.checkpoint

    def forget_commit(self, micro_batch: int) -> None:
        """Spark's word that a micro-batch is done is lost, as if killed before it was written."""
        for name in (f"{micro_batch}", f".{micro_batch}.crc"):
            (self.place / "commits" / name).unlink(missing_ok=True)

    def forget_stash(self, micro_batch: int | None = None) -> None:
        """What calve keeps of a micro-batch, or all of it, is lost."""
        if micro_batch is None:
            shutil.rmtree(self.place / "calve")
            return
        for path in (self.place / "calve" / "stash").glob(f"{micro_batch:010d}-*"):
            path.unlink()

    def back_up(self, name: str = "backup") -> None:
        """A copy of the checkpoint as it is now."""
        shutil.copytree(self.place, self.folder / name)

    def restore(self, name: str = "backup") -> None:
        """The checkpoint is what it was when it was copied."""
        shutil.rmtree(self.place)
        shutil.copytree(self.folder / name, self.place)

    def lose_checkpoint(self) -> str:
        """The checkpoint is gone; its id."""
        lost = self.query_id
        shutil.rmtree(self.place)
        return lost

    def roll_back(self, upper: int, *, tag: bool = True) -> None:
        """Somebody puts the table back to the snapshot that ends at `upper`: main, and the sink's tag too."""
        (at,) = (one.snapshot_id for one in self.shown() if one.upper == upper)
        refs = {"main": "branch"} | ({tag_name(self.config().sink.sink_id): "tag"} if tag else {})
        updates: list[Any] = [
            SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": at})
            for name, kind in refs.items()
        ]
        with self.catalog() as catalog:
            table = catalog.load_table((NAMESPACE, self.table))
            catalog.commit_table(table, (), tuple(updates))

    def drop(self) -> None:
        with self.catalog() as catalog:
            catalog.drop_table((NAMESPACE, self.table))

    def generation(self) -> int:
        """How many runs have claimed the sink."""
        return self.lake.progress(self.table).generation

    def stash(self) -> list[str]:
        """The names of all manifests of the stash."""
        return sorted(self.stash_texts())

    def stash_texts(self) -> dict[str, str]:
        folder = self.place / "calve" / "stash"
        return {path.name: path.read_text() for path in folder.glob("*.json")}


class Driver:
    """Spark's part of a query, played by the test: it hands over micro-batches one by one, whoever else does
    so too. The checkpoint's id and offsets are those that are there, or are made up."""

    def __init__(self, flow: Flow, **changed: Any) -> None:
        self._flow = flow
        flow.place.mkdir(parents=True, exist_ok=True)
        if not (flow.place / "metadata").exists():
            (flow.place / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        self._catalog = SqlCatalog(
            flow.lake.name, uri=f"sqlite:///{flow.lake.catalog_file}", warehouse=flow.lake.warehouse
        )
        incoming = arrow_schema(self._frame(0).schema)
        self.log = Log()
        self._pipeline = Pipeline(flow.config(**changed), incoming, self._catalog, watchers=[self.log])

    def micro_batch(self, number: int) -> SinkProgress:
        """The file of that number."""
        offsets = self._flow.place / "offsets" / str(number)
        if not offsets.exists():
            offsets.parent.mkdir(exist_ok=True)
            offsets.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"made up":{number}}}')
        context = self._flow.spark.sparkContext
        outer = context.getLocalProperty(_QUERY_ID)
        context.setLocalProperty(_QUERY_ID, self._flow.query_id)
        try:
            self._pipeline(self._frame(number), number)
        finally:
            context.setLocalProperty(_QUERY_ID, outer)
        return self.log.seen[-1]

    def _frame(self, number: int) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        spark_schema = from_arrow_schema(self._flow.schema, prefer_timestamp_ntz=True)
        reader = self._flow.spark.read.schema(spark_schema)
        return reader.parquet(str(self._flow.folder / "source" / f"{number + 1:04d}.parquet"))


class Ended(Exception):
    """The test wants no further micro-batch."""


class Crash(Exception):
    """The run ends here, in the middle of a micro-batch."""


@dataclass(frozen=True, slots=True)
class How:
    """How a run goes."""

    files: int = 1
    """A micro-batch."""
    micro_batches: int | None = None
    """After so many the query is ended."""
    between: Mapping[int, Callable[[], Any]] = field(default_factory=dict)
    """What happens before a micro-batch begins."""
    within: Mapping[int, Callable[[], Any]] = field(default_factory=dict)
    """What happens in a micro-batch, once its files are written and before anything is kept of them."""
    crash_at: str | None = None
    """`target: commit`, `quarantine: commit`: before that."""


def _nothing() -> None:
    pass


@contextmanager
def _disturbed(how: How, number: int) -> Iterator[None]:
    """Let something happen in a micro-batch, at a seam that the product has anyway."""
    keep, commit = Pipeline._keep, Coordinator.commit

    def keep_later(self: Any, *arguments: Any) -> Any:
        Pipeline._keep = keep  # type: ignore[method-assign]
        how.within[number]()
        return keep(self, *arguments)

    def commit_or_crash(self: Any, batches: Any) -> Any:
        what = "quarantine" if self.identity.sink_id.endswith(".quarantine") else "target"
        if how.crash_at == f"{what}: commit":
            raise Crash(how.crash_at)
        return commit(self, batches)

    if number in how.within:
        Pipeline._keep = keep_later  # type: ignore[assignment, method-assign]
    if how.crash_at is not None:
        Coordinator.commit = commit_or_crash  # type: ignore[method-assign]
    try:
        yield
    finally:
        Pipeline._keep = keep  # type: ignore[method-assign]
        Coordinator.commit = commit  # type: ignore[method-assign]


def number_of(value: Any) -> int | None:
    """A time as the number that it is."""
    match value:
        case None:
            return None
        case datetime():
            zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return (zoned - _EPOCH) // timedelta(microseconds=1)
        case Decimal():
            return int(value)
    return int(value)


def _word(op: str | None) -> str:
    if op in DELETE_WORDS:
        return "delete"
    return "insert" if op in INSERT_WORDS else "upsert"


def is_estimate(stream: Mapping[str, Any]) -> bool:
    return stream.get("frontier") in (FrontierKind.MAXIMUM, FrontierKind.WATERMARK, "maximum", "watermark")


def uppers(bounds: Sequence[tuple[int, int]]) -> list[int]:
    return [upper for _, upper in bounds]
