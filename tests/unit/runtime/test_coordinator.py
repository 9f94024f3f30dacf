"""The coordinator on a real catalog (SQLite, local files), and what it says when it refuses.

What an unreliable catalog does to it stands in tests/simulation.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from calve.model.batch import Batch
from calve.model.errors import (
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    Gap,
    PremiseBroken,
    RolledBack,
    TableMissing,
    TableReplaced,
)
from calve.model.file import FileClosed, FileKind
from calve.model.progress import Progress, tag_name
from calve.protocol.judge import Verdict
from calve.protocol.retry import RetryPolicy
from calve.runtime.coordinator import Coordinator
from calve.runtime.hold import Identity
from calve.runtime.refusal import refusal
from calve.table.build import Ready
from calve.table.fileio import IO_IMPL
from calve.table.premises import Premises
from tests.simulation.faults import CommitFault, LoadFault
from tests.simulation.run import Run
from tests.simulation.worker import table_schema
from tests.simulation.world import IDENTITY, Setting, World

TABLE = ("shop", "orders")
ORDERS = Identity(TABLE, "shop.orders", "epoch")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog(
        "c",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"file://{tmp_path}/lake",
        **{"py-io-impl": IO_IMPL},
    )
    catalog.create_namespace("shop")
    catalog.create_table(TABLE, table_schema(), partition_spec=PartitionSpec())
    return catalog


def run_of(catalog: SqlCatalog, identity: Identity = ORDERS, seed: int = 1) -> Coordinator:
    return Coordinator(catalog, identity, random=Random(seed), policy=RetryPolicy(attempts_max=3, first_ms=1))


def ready(run: Coordinator, lower: int, upper: int) -> Ready:
    """A batch of one file. Its bytes do not matter: nobody opens it to commit it (P7)."""
    schema = run.base.metadata.schema()
    batch = Batch(lower, upper)
    file = FileClosed(
        batch=batch,
        worker="w0",
        path=f"{run.base.metadata.location}/data/{lower}-{upper}.parquet",
        kind=FileKind.DATA,
        schema_id=schema.schema_id,
        spec_id=0,
        partition=(),
        record_count=1,
        file_bytes=10,
    )
    return Ready(batch, (file,), schema, Premises(schema))


def frontiers(catalog: SqlCatalog) -> list[str]:
    """Of main's snapshots, oldest first."""
    metadata = catalog.load_table(TABLE).metadata
    found = []
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        assert snapshot.summary is not None
        found.append(snapshot.summary["calve.frontier"])
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    return [frontier for frontier in reversed(found) if frontier is not None]


def test_a_claim_changes_nothing_that_a_reader_sees(catalog: SqlCatalog) -> None:
    progress = run_of(catalog).claim()
    metadata = catalog.load_table(TABLE).metadata
    assert metadata.current_snapshot_id is None
    assert (progress.frontier, progress.generation) == (0, 1)
    assert tag_name("shop.orders") in metadata.refs


def test_each_batch_of_a_group_is_a_snapshot_of_its_own(catalog: SqlCatalog) -> None:
    run = run_of(catalog)
    run.claim()
    run.commit([ready(run, 0, 1), ready(run, 1, 2), ready(run, 2, 5)])
    assert frontiers(catalog) == ["1", "2", "5"]
    metadata = catalog.load_table(TABLE).metadata
    numbers = [snapshot.sequence_number for snapshot in metadata.snapshots]
    assert numbers == sorted(set(numbers), key=lambda number: number or 0)
    assert run.stats.commits == 1


def test_p6_a_run_that_is_started_again_goes_on_from_the_tables_frontier(catalog: SqlCatalog) -> None:
    run = run_of(catalog)
    run.claim()
    run.commit([ready(run, 0, 4)])
    again = run_of(catalog, seed=2)
    assert again.claim().frontier == 4
    assert again.progress.generation == 2
    again.commit([ready(again, 4, 5)])
    assert frontiers(catalog) == ["4", "5"]


def test_case_10_of_two_runs_the_older_is_fenced_and_changes_nothing(catalog: SqlCatalog) -> None:
    older, newer = run_of(catalog), run_of(catalog, seed=2)
    older.claim()
    newer.claim()
    with pytest.raises(Fenced, match=r"generation 2\) of sink shop.orders"):
        older.commit([ready(older, 0, 1)])
    assert frontiers(catalog) == []
    newer.commit([ready(newer, 0, 1)])


def test_two_sinks_on_one_table_do_not_fence_each_other(catalog: SqlCatalog) -> None:
    one, other = run_of(catalog), run_of(catalog, Identity(TABLE, "audit", "epoch"), seed=2)
    one.claim()
    other.claim()
    one.commit([ready(one, 0, 1)])
    other.commit([ready(other, 0, 2)])
    one.commit([ready(one, 1, 2)])
    assert one.progress.frontier == other.progress.frontier == 2


def test_a_batch_that_leaves_a_gap_is_refused_once_the_table_was_read(catalog: SqlCatalog) -> None:
    run, other = run_of(catalog), run_of(catalog, Identity(TABLE, "audit", "epoch"), seed=2)
    run.claim()
    other.claim()
    other.commit([ready(other, 0, 1)])
    with pytest.raises(Gap, match="ends at 0, the next batch begins at 3"):
        run.commit([ready(run, 3, 4)])


def test_a_sink_never_goes_on_under_another_meaning_of_time(catalog: SqlCatalog) -> None:
    run_of(catalog).claim()
    with pytest.raises(Diverged, match="counts its times as 'epoch', this run as 'hlc'"):
        run_of(catalog, Identity(TABLE, "shop.orders", "hlc"), seed=2).claim()


def test_p6_a_table_that_lost_the_sinks_tag_is_not_begun_again(catalog: SqlCatalog) -> None:
    run_of(catalog).claim()
    table = catalog.load_table(TABLE)
    catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name=tag_name("shop.orders")),))
    with pytest.raises(Diverged, match=r"tag calve-shop\.orders is gone"):
        run_of(catalog, seed=2).claim()


def test_a_table_that_is_not_there_is_said_so(catalog: SqlCatalog) -> None:
    with pytest.raises(TableMissing, match=r"shop\.none is not in the catalog"):
        run_of(catalog, Identity(("shop", "none"), "s", "epoch")).claim()


def test_a_commit_before_a_claim_is_a_defect_of_the_caller(catalog: SqlCatalog) -> None:
    with pytest.raises(AssertionError, match="claim first"):
        _ = run_of(catalog).base


# -- attempts, by the simulated catalog -------------------------------------------------------------


def test_pauses_between_attempts_grow_on_the_clock_and_stop_at_the_patience() -> None:
    world = World(1, Setting())
    run = Run(world)
    policy = RetryPolicy(attempts_max=100, first_ms=1_000, most_ms=8_000, patience_ms=20_000)
    run.coordinator = type(run.coordinator)(world, policy=policy)
    run.claim()
    world.plan(*[CommitFault.LOST_RESET] * 100)
    began = world.clock.ms
    with pytest.raises((CommitUnknown, CommitConflict)):
        run.commit(run.write([Batch(0, 1)]))
    assert 20_000 <= world.clock.ms - began <= 28_000
    assert run.coordinator.stats.unknowns < 12


def test_answers_are_counted_by_what_they_were() -> None:
    world = World(1, Setting())
    run = Run(world, attempts_max=5)
    run.claim()
    world.plan(CommitFault.REFUSED_409, CommitFault.LOST_500, CommitFault.LOST_503, LoadFault.RESET)
    run.commit(run.write([Batch(0, 1)]))
    stats = run.coordinator.stats
    assert (stats.commits, stats.conflicts, stats.unknowns) == (1, 1, 2)


def test_a_claim_that_is_refused_again_and_again_is_given_up() -> None:
    world = World(1, Setting())
    run = Run(world, attempts_max=2)
    world.plan(CommitFault.REFUSED_409, CommitFault.REFUSED_409)
    with pytest.raises(CommitConflict, match="was not taken in 2 attempts"):
        run.coordinator.claim()


# -- what a refusal says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict, kind, words",
    [
        (Verdict.FENCED, Fenced, "generation 1"),
        (Verdict.ROLLED_BACK, RolledBack, "does not descend from snapshot 50"),
        (Verdict.GAP, Gap, "ends at 5, the next batch begins at 7"),
        (Verdict.REPLACED, TableReplaced, "its uuid changed"),
        (Verdict.DIVERGED, Diverged, "contradicts this run, which goes on from 7"),
    ],
)
def test_a_refusal_names_the_table_and_the_next_step(
    verdict: Verdict, kind: type[Exception], words: str
) -> None:
    world = World(1, Setting())
    writer = Run(world).coordinator.writer
    progress = Progress(
        sink_id=IDENTITY.sink_id,
        frontier=5,
        lower=4,
        generation=1,
        writer=writer,
        source="epoch",
        committed=50,
    )
    error = refusal(verdict, "sim.table", progress, lower=7, root=50)
    assert type(error) is kind
    assert words in error.message
    assert "sim.table" in error.message
    assert error.hint


@pytest.mark.parametrize("verdict", [Verdict.ROLLED_BACK, Verdict.GAP, Verdict.REPLACED, Verdict.DIVERGED])
def test_a_refusal_can_be_said_where_the_table_has_no_progress(verdict: Verdict) -> None:
    assert refusal(verdict, "sim.table", None, lower=0).hint


def test_case_62_a_batch_without_files_still_relies_on_an_empty_table(catalog: SqlCatalog) -> None:
    # Deletes of unknown keys leave no file where the table is empty; a row that came since may be theirs.
    run, other = run_of(catalog), run_of(catalog, Identity(TABLE, "audit", "epoch"), seed=2)
    run.claim()
    schema = run.base.metadata.schema()
    deletes = Ready(Batch(0, 1), (), schema, Premises(schema, empty=True))
    other.claim()
    other.commit([ready(other, 0, 1)])
    with pytest.raises(PremiseBroken, match="was empty"):
        run.commit([deletes])
    run.commit([Ready(Batch(0, 1), (), schema, premises=None)])
    assert run.progress.frontier == 1
