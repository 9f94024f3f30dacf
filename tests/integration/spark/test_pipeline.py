"""The pipeline as it is meant to go: any kind of stream, every snapshot the truth of its upper (P1, P2).

Real queries over files, a micro-batch each, stopped and started again half way. The truth is computed from
the rows in plain Python; tables are read by Spark with Iceberg's own runtime and by DuckDB.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from calve.model.errors import BadRow, Diverged
from tests.support.flow import Flow, Row
from tests.support.lake import Lake
from tests.support.pairs import pairs
from tests.support.readers import DuckReader, Reader, SparkReader
from tests.support.spark import has_iceberg

pytestmark = [pytest.mark.spark]

HLC = 1_698_775_840_453_391_000 * 10**10
START = datetime(2026, 11, 15, 12, tzinfo=UTC)
SEED = 20261115

DATA = (("id", pa.int64()), ("region", pa.string()), ("v", pa.string()))
UPSERT = {"mode": "upsert", "key": ("id",), "op_column": "_op"}


def changes_of(time: str, kind: pa.DataType, *more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*DATA, (time, kind), *more, ("_op", pa.string())])


LONGS = changes_of("lsn", pa.int64())
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 10}


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of stream into a kind of table."""

    name: str
    sink: dict[str, Any]
    stream: dict[str, Any] = field(default_factory=dict)
    schema: pa.Schema = LONGS
    time: Callable[[int], Any] = int
    """A time of the workload as the column holds it."""
    marks: int = 0
    """Partitions of the source, where they tell how far they are."""
    watermark: str | None = None
    one_change: bool = False
    """A key changes at most once a micro-batch."""

    @property
    def time_column(self) -> str:
        return self.stream.get("time_column", self.schema.names[3])


def by_lsn(**more: Any) -> dict[str, Any]:
    return {**UPSERT, "sequence_by": ("lsn",), **more}


def seconds(count: int) -> datetime:
    return START + timedelta(seconds=count)


VARIANTS = (
    Variant("append", {"mode": "append"}),
    Variant("append in time", {"mode": "append"}, {**MAXIMUM, "commit_interval": 8}),
    Variant("changelog", {"mode": "changelog", "op_column": "_op"}),
    Variant("changelog with a key in time", {**UPSERT, "mode": "changelog"}, MAXIMUM),
    Variant("upsert without an order", UPSERT, one_change=True),
    Variant("upsert", by_lsn()),
    Variant("upsert in time", by_lsn(), MAXIMUM),
    Variant("upsert by intervals", by_lsn(), {**MAXIMUM, "commit_interval": 4}),
    Variant("upsert, scoped deletes", by_lsn(partition="bucket(3, id)"), {**MAXIMUM, "commit_interval": 12}),
    Variant("upsert, global deletes", by_lsn(partition="region", sort="v"), MAXIMUM),
    Variant(
        "upsert by an HLC of 29 digits",
        {**UPSERT, "sequence_by": ("hlc",)},
        {"time_column": "hlc", "frontier": "maximum", "frontier_delay": 10},
        changes_of("hlc", pa.decimal128(38, 0)),
        lambda time: Decimal(HLC + time),
    ),
    Variant(
        "upsert by timestamps",
        {**UPSERT, "sequence_by": ("ts",), "partition": "day(ts)"},
        {
            "time_column": "ts",
            "frontier": "maximum",
            "frontier_delay": 10_000_000,
            "commit_interval": 5_000_000,
        },
        changes_of("ts", pa.timestamp("us", tz="UTC")),
        seconds,
    ),
    Variant(
        "upsert by timestamps without a zone",
        {**UPSERT, "sequence_by": ("ts",)},
        {"time_column": "ts", "frontier": "maximum", "frontier_delay": 10_000_000},
        changes_of("ts", pa.timestamp("us")),
        lambda time: seconds(time).replace(tzinfo=None),
    ),
    Variant(
        "upsert by a watermark",
        {**UPSERT, "sequence_by": ("ts",)},
        {"time_column": "ts", "frontier": "watermark"},
        changes_of("ts", pa.timestamp("us", tz="UTC")),
        seconds,
        watermark="10 seconds",
    ),
    Variant(
        "upsert by marks",
        by_lsn(),
        {
            "time_column": "lsn",
            "frontier": "mark",
            "mark_column": "resolved",
            "partition_column": "p",
            "partitions": 2,
        },
        changes_of("lsn", pa.int64(), ("p", pa.int32()), ("resolved", pa.int64())),
        marks=2,
    ),
)

BY_DAY = (
    "append in time",
    "changelog with a key in time",
    "upsert, scoped deletes",
    "upsert by a watermark",
)
"""Each mode, each way of cutting batches, times that are numbers and times that are timestamps. Of the
others, streams that are numbered are in most tests of test_recovery.py, marks and HLCs in every feed."""


def by_day_and_night() -> list[Any]:
    names = {variant.name for variant in VARIANTS}
    assert names.issuperset(BY_DAY)
    return [
        variant if variant.name in BY_DAY else pytest.param(variant, marks=pytest.mark.nightly)
        for variant in VARIANTS
    ]


def workload(variant: Variant, micro_batches: int = 6) -> Iterator[list[Row]]:
    """Changes of a few keys that come up to ten units late, some of them twice; no two share a time."""
    random = Random(f"{variant.name}-{SEED}")
    times = list(range(micro_batches * 8))
    # A time is at most nine places from its own: so the delay of ten makes none of them late.
    order = sorted(times, key=lambda time: time + random.random() * 9)
    for number in range(micro_batches):
        rows = [_change(variant, random, time) for time in order[number * 8 : number * 8 + 8]]
        if variant.one_change:
            rows = list({row["id"]: row for row in rows}.values())
        elif variant.sink["mode"] == "upsert" or "key" in variant.sink:
            rows.append(dict(random.choice(rows)))
        if variant.marks:
            rows += _marks(variant, order[number * 8 + 8 :], number)
        yield rows


def _change(variant: Variant, random: Random, time: int) -> Row:
    row = {
        "id": random.randrange(5),
        "region": random.choice(["eu", "us", "a/b c"]),
        "v": random.choice(["x", "y", "ü\n", None]),
        variant.time_column: variant.time(time),
        "_op": random.choice("IuuuD"),
    }
    return {**row, "p": random.randrange(variant.marks)} if variant.marks else row


def _marks(variant: Variant, to_come: list[int], number: int) -> Iterator[Row]:
    """What the partitions say: one of them is silent at first, and one repeats an older mark."""
    least = min(to_come, default=1000)
    if number >= 2:
        yield {"p": 0, "resolved": least}
    yield {"p": 1, "resolved": least}
    yield {"p": 1, "resolved": max(0, least - 7)}


@pytest.fixture
def make(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Callable[..., Flow]:
    def made(sink: dict[str, Any], schema: pa.Schema = LONGS, **stream: Any) -> Flow:
        return Flow(spark, lake, table_name[-60:], tmp_path, schema, dict(sink), dict(stream))

    return made


@pytest.fixture
def readers(spark: Any, duckdb: DuckReader) -> list[Reader]:
    return [SparkReader(spark), duckdb] if has_iceberg() else [duckdb]


def change(id_: int | None, v: str | None, lsn: int | None, op: str | None = "u") -> dict[str, Any]:
    return {"id": id_, "region": "eu", "v": v, "lsn": lsn, "_op": op}


# -- the truth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", by_day_and_night(), ids=lambda variant: variant.name)
def test_p1_every_snapshot_is_the_truth_of_its_upper(
    make: Callable[..., Flow], readers: list[Reader], variant: Variant
) -> None:
    """And P2. Cases 44 to 46 and 55: changes come late, out of order and twice, and marks go back."""
    flow = make(variant.sink, variant.schema, **variant.stream)
    if variant.watermark is not None:
        flow.transform = lambda frame: frame.withWatermark("ts", variant.watermark)
    told = []
    for number, rows in enumerate(workload(variant)):
        flow.put(*rows)
        if number in (2, 5):
            told += flow.run()
    bounds = flow.check(*readers)
    assert len(bounds) >= 3
    assert sum(progress.batches_committed for progress in told) == len(bounds)
    assert {progress.rows_late for progress in told} == {0}
    changes = sum(len(rows) for rows in flow.sent) - sum(
        "resolved" in row for rows in flow.sent for row in rows
    )
    assert sum(progress.rows for progress in told) == changes


# -- batches and commits --------------------------------------------------------------------------


def test_several_batches_of_a_micro_batch_are_one_commit_and_a_snapshot_each(
    make: Callable[..., Flow], readers: list[Reader]
) -> None:
    flow = make(by_lsn(), **{**MAXIMUM, "frontier_delay": 0}, commit_interval=10)
    flow.put(change(1, "a", 0))
    flow.run()
    commits = len(flow.load().metadata.metadata_log)
    flow.put(change(9, "z", 1))
    flow.put(*(change(number % 3, f"v{number}", number * 5, "uuD"[number % 3]) for number in range(1, 12)))
    told = flow.run()
    assert [progress.batches_committed for progress in told] == [0, 5]
    assert flow.check(*readers) == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]
    assert len(flow.load().metadata.metadata_log) == commits + 2, "a claim and one commit"


def test_after_a_stop_one_batch_catches_up(make: Callable[..., Flow], readers: list[Reader]) -> None:
    flow = make(by_lsn(), **MAXIMUM, commit_interval=10)
    flow.put(change(1, "a", 0))
    flow.run()
    flow.put(*(change(number, "b", number * 10) for number in range(1, 8)))
    flow.run()
    assert flow.check(*readers) == [(0, 60)]


def test_time_without_changes_goes_to_the_next_batch_that_has_some(
    make: Callable[..., Flow], readers: list[Reader]
) -> None:
    """P2: the lower of a batch is the frontier before it, however many intervals had no change."""
    flow = make(by_lsn(), **{**MAXIMUM, "frontier_delay": 0}, commit_interval=10)
    for lsn in (5, 11, 95, 96, 200):
        flow.put(change(1, str(lsn), lsn))
    flow.run()
    assert flow.check(*readers) == [(0, 10), (10, 20), (20, 100)]


@pytest.mark.parametrize("stream", [{}, MAXIMUM], ids=["numbered", "timed"])
def test_case_52_micro_batches_without_changes_make_no_snapshot(
    make: Callable[..., Flow], readers: list[Reader], stream: dict[str, Any]
) -> None:
    flow = make(by_lsn(), **stream)
    flow.put()
    flow.put(change(1, "a", 1), change(2, "b", 30))
    flow.put()
    flow.put()
    told = flow.run()
    assert [progress.batches_committed for progress in told] == [0, 1, 0, 0]
    assert len(flow.check(*readers)) == 1
    flow.put(change(1, "c", 60))
    flow.run()
    assert flow.check(*readers)[-1] == ((20, 50) if stream else (2, 5))


def test_a_key_that_moves_through_partitions_leaves_one_row(
    make: Callable[..., Flow], readers: list[Reader]
) -> None:
    """Case 67, in one batch and over several."""
    flow = make(by_lsn(partition="region"))
    for regions in (["eu", "us", "asia"], ["us"], ["eu", "us"]):
        first = len(flow.sent) * 10
        flow.put(*({**change(1, "v", first + n), "region": region} for n, region in enumerate(regions)))
    flow.run()
    flow.check(*readers)
    specs = {row["spec_id"] for row in flow.load().inspect.delete_files().to_pylist()}
    assert specs == {1}, "global deletes stand under the unpartitioned spec"


def test_deletes_are_scoped_where_the_partition_follows_from_the_key(make: Callable[..., Flow]) -> None:
    flow = make(by_lsn(partition="bucket(3, id)"))
    for number in range(2):
        flow.put(*(change(key, "v", number * 10 + key) for key in range(6)))
    flow.run()
    specs = {row["spec_id"] for row in flow.load().inspect.delete_files().to_pylist()}
    assert specs == {0}


# -- schema ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode, stream", pairs({"append": "append", "upsert": "upsert"}, {"numbered": {}, "timed": MAXIMUM})
)
def test_a_restart_with_a_new_column_brings_it_with_the_first_data_that_has_it(
    make: Callable[..., Flow], readers: list[Reader], mode: str, stream: dict[str, Any]
) -> None:
    sink = by_lsn() if mode == "upsert" else {"mode": "append"}
    wider = LONGS.append(pa.field("extra", pa.int32()))
    flow = make({**sink, "schema_evolution": True}, **stream)
    flow.put(change(1, "a", 1), change(2, "b", 12))
    flow.run()
    flow.put({**change(3, "c", 13), "extra": 7}, {**change(1, "d", 40), "extra": 8}, schema=wider)
    flow.run(schema=wider)
    assert len(flow.check(*readers, schema=wider)) == 2
    schemas = [flow.load().snapshot_by_id(one.snapshot_id) for one in flow.shown()]
    assert [one.schema_id for one in schemas if one is not None] == [0, 1]


# -- what Spark does ------------------------------------------------------------------------------


def counted(folder: Path) -> Callable[[Any], Any]:
    """A stage of the user's own that leaves a file each time a partition with rows goes through it."""
    folder.mkdir()
    place = str(folder)

    def transform(frame: Any) -> Any:
        def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            seen = False
            for batch in batches:
                seen = seen or batch.num_rows > 0
                yield batch
            if seen:
                Path(place, uuid.uuid4().hex).touch()

        return frame.mapInArrow(pass_on, frame.schema)

    return transform


@pytest.mark.parametrize(
    "sink, stream",
    [({"mode": "append"}, {}), (by_lsn(), {}), (by_lsn(), MAXIMUM), ({"mode": "append"}, MAXIMUM)],
    ids=["append", "upsert", "upsert in time", "append in time"],
)
def test_a_micro_batch_is_evaluated_once(
    make: Callable[..., Flow], tmp_path: Path, sink: dict[str, Any], stream: dict[str, Any]
) -> None:
    flow = make(sink, **stream)
    flow.transform = counted(tmp_path / "evaluations")
    for number in range(3):
        flow.put(change(1, "a", number * 20), change(2, "b", number * 20 + 15))
    flow.run()
    assert len(list((tmp_path / "evaluations").iterdir())) == 3


@dataclass(slots=True)
class Collected:
    """What came to the driver: the plans of frames that were collected, and how many rows each gave."""

    plans: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def writing(self) -> list[str]:
        return [plan for plan in self.plans if "MapInArrow" in plan]


@pytest.fixture
def collected(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Collected:
    found, kind = Collected(), type(spark.range(1))
    collect = kind.collect

    def noted(frame: Any) -> Any:
        rows = collect(frame)
        found.plans.append(frame._jdf.queryExecution().executedPlan().toString())
        found.rows.append(len(rows))
        return rows

    monkeypatch.setattr(kind, "collect", noted)
    return found


@pytest.mark.parametrize("stream", [{}, {**MAXIMUM, "commit_interval": 50}], ids=["numbered", "timed"])
def test_append_without_keys_writes_without_a_shuffle(
    make: Callable[..., Flow], collected: Collected, stream: dict[str, Any]
) -> None:
    flow = make({"mode": "append"}, **stream)
    flow.put(*(change(number, "a", number) for number in range(1000)))
    flow.run()
    assert len(collected.writing) == 1
    assert "Exchange" not in collected.writing[0]


def test_rows_with_a_key_are_shuffled_by_it_once_and_never_reach_the_driver(
    make: Callable[..., Flow], collected: Collected
) -> None:
    flow = make(by_lsn(), **MAXIMUM, tasks=2)
    flow.put(*(change(number, "a", number) for number in range(1000)))
    flow.put(*(change(number, "a", 1000 + number) for number in range(1000)))
    flow.run()
    assert len(collected.writing) == 2
    for plan in collected.writing:
        assert plan.count("hashpartitioning(id") >= 1
        assert plan.count("Exchange hashpartitioning") <= 2, "once, in the final plan and the initial one"
    # A row a file and one a task; and of the survey one for all changes.
    assert max(collected.rows) <= 6


# -- rows that do not fit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad, reason",
    [
        (change(None, "a", 99), "the key is null"),
        (change(1, "a", None), "the time is null|the sequence is null"),
        (change(1, "a", 99, "x"), "'x' is not an op"),
        (change(1, "a", 99, "t"), "the op 't' is refused"),
        (change(1, "late", 3), "comes too late: the batches before 90 are closed"),
    ],
)
def test_case_54_a_row_that_does_not_fit_stops_the_query_with_its_place(
    make: Callable[..., Flow], readers: list[Reader], bad: dict[str, Any], reason: str
) -> None:
    flow = make(by_lsn(), **MAXIMUM)
    flow.put(change(1, "a", 5), change(2, "b", 100))
    flow.put(change(3, "c", 120), bad)
    with pytest.raises(BadRow, match=reason) as refused:
        flow.run()
    assert "micro-batch 1" in refused.value.message
    assert refused.value.hint
    assert flow.check(*readers, without=[bad]) == [(0, 90)]


def test_case_55_a_partition_more_than_there_should_be_stops_the_query(make: Callable[..., Flow]) -> None:
    (variant,) = (one for one in VARIANTS if one.marks)
    flow = make(variant.sink, variant.schema, **variant.stream)
    flow.put({"p": 0, "resolved": 5}, {"p": 1, "resolved": 5}, {"p": 2, "resolved": 5})
    with pytest.raises(Diverged, match="3 partitions of the source have spoken"):
        flow.run()


def test_case_44_under_marks_what_the_table_has_is_a_replay_and_is_counted(
    make: Callable[..., Flow], readers: list[Reader]
) -> None:
    (variant,) = (one for one in VARIANTS if one.marks)
    flow = make(variant.sink, variant.schema, **{**variant.stream, "partitions": 1})
    rows = [{**change(number, "a", number), "p": 0} for number in range(4)]
    flow.put(*rows, {"p": 0, "resolved": 4})
    flow.put(*rows, {**change(9, "b", 5), "p": 0}, {"p": 0, "resolved": 6})
    told = flow.run()
    assert [(progress.rows_replayed, progress.rows_late) for progress in told] == [(0, 0), (4, 0)]
    assert flow.check(*readers) == [(0, 4), (4, 6)]
