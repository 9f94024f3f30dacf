"""Failure cases one by one, scripted: what the seeds meet in any order, here in the order that is told.

The numbers are those of the project's list of what must survive. The checker watches here too: every
change that is applied is held against P1 to P6.
"""

from __future__ import annotations

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from calve.model.batch import Batch
from calve.model.errors import (
    AccessDenied,
    CatalogWithoutTags,
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    ForeignRows,
    PremiseBroken,
    RolledBack,
    StoreError,
    TableMissing,
    TableReplaced,
)
from calve.model.progress import tag_name
from calve.protocol.judge import Verdict
from tests.simulation.faults import CommitFault, Crash, Fault, LoadFault, WriteFault
from tests.simulation.ledger import SINK, Ledger
from tests.simulation.run import Run
from tests.simulation.worker import BY_SHARD, live_specs
from tests.simulation.world import Setting, World

pytestmark = pytest.mark.simulation

FIRST, SECOND, THIRD = Batch(0, 2), Batch(2, 4), Batch(4, 6)
KINDS = (Setting(), Setting(partitioned=True), Setting(partitioned=True, moving=True))


@pytest.fixture(params=KINDS, ids=["unpartitioned", "scoped deletes", "global deletes"])
def world(request: pytest.FixtureRequest) -> World:
    return World(3, request.param)


def started(world: World, *batches: Batch, attempts_max: int = 4) -> Run:
    """A run that has claimed the sink and committed some batches."""
    run = Run(world, attempts_max=attempts_max)
    world.catalog.client = run
    run.claim()
    for batch in batches:
        publish(run, batch)
    return run


def publish(run: Run, *batches: Batch) -> None:
    run.world.catalog.client = run
    run.commit(run.write(list(batches)))


def frontier(world: World) -> int:
    progress = world.checker.ledger.progress
    return 0 if progress is None else progress.frontier


def commits(world: World) -> int:
    return world.checker.ledger.commits


def foreign_insert(world: World, *keys: int) -> None:
    world.met["foreign append"] += 1
    world.foreign.append([world.source.row(key, 10**6 + key) for key in keys])


# -- process ----------------------------------------------------------------------------------------


def test_case_3_files_that_were_staged_and_not_committed_are_reused_once(world: World) -> None:
    """A restart commits the files of the run before it: one copy in the table."""
    staged = started(world, FIRST).write([SECOND])
    after = started(world)
    after.commit(staged)
    assert frontier(world) == 4


@pytest.mark.parametrize(
    "fault, applied", [(CommitFault.CRASH_BEFORE, False), (CommitFault.CRASH_AFTER, True)]
)
def test_case_4_a_kill_around_the_commit_request_is_a_no_op_or_a_commit(
    world: World, fault: CommitFault, applied: bool
) -> None:
    run = started(world, FIRST)
    world.plan(fault)
    with pytest.raises(Crash):
        publish(run, SECOND)
    after = started(world)
    assert after.coordinator.progress.frontier == (4 if applied else 2)
    publish(after, Batch(after.coordinator.progress.frontier, 6))
    assert frontier(world) == 6


@pytest.mark.parametrize(
    "fault", [*(LoadFault.CRASH,), *WriteFault, CommitFault.CRASH_BEFORE, CommitFault.CRASH_AFTER]
)
def test_case_6_a_crash_during_recovery_changes_nothing_for_the_next_recovery(
    world: World, fault: Fault
) -> None:
    started(world, FIRST)
    world.plan(fault)
    with pytest.raises((Crash, StoreError)):
        started(world)
    publish(started(world), SECOND)
    assert frontier(world) == 4


def test_case_9_a_zombie_that_wakes_up_after_another_run_claimed_is_fenced(world: World) -> None:
    zombie = started(world, FIRST)
    staged = zombie.write([SECOND])
    other = started(world)
    with pytest.raises(Fenced, match="claimed by run"):
        zombie.commit(staged)
    assert frontier(world) == 2
    publish(other, SECOND)


def test_case_9_a_zombie_in_the_middle_of_its_request_is_fenced(world: World) -> None:
    zombie = started(world, FIRST)
    others: list[Run] = []
    world.before(CommitFault, lambda: others.append(started(world, SECOND)))
    with pytest.raises(Fenced):
        publish(zombie, SECOND)
    assert frontier(world) == 4


def test_case_10_of_two_runs_that_claim_at_once_one_goes_on(world: World) -> None:
    """P4: the second claim lands in the middle of the first; the later claim wins, the earlier is fenced."""
    others: list[Run] = []
    world.before(CommitFault, lambda: others.append(started(world)))
    first = started(world)
    with pytest.raises(Fenced):
        publish(others[0], FIRST)
    publish(first, FIRST)
    assert frontier(world) == 2


# -- catalog ----------------------------------------------------------------------------------------


def test_case_15_a_409_by_another_writer_is_read_judged_and_tried_again(world: World) -> None:
    run = started(world, FIRST)
    world.before(CommitFault, lambda: foreign_insert(world, -1))
    publish(run, SECOND)
    assert frontier(world) == 4
    assert world.met[Verdict.COMMIT] == 1


APPLIED = [fault for fault in CommitFault if fault.name.startswith("APPLIED")]


@pytest.mark.parametrize("fault", APPLIED, ids=lambda fault: fault.name)
def test_cases_16_18_19_21_22_23_an_answer_that_was_lost_is_not_a_second_commit(
    world: World, fault: CommitFault
) -> None:
    """P3: our snapshot id is in the table, whatever the catalog said."""
    run = started(world, FIRST)
    world.plan(fault)
    publish(run, SECOND)
    assert world.met[Verdict.LANDED] == 1
    assert commits(world) == 2
    publish(run, THIRD)
    assert frontier(world) == 6


@pytest.mark.parametrize(
    "fault",
    [CommitFault.LOST_500, CommitFault.LOST_503, CommitFault.LOST_RESET, CommitFault.SLOW_DOWN_429],
    ids=lambda fault: fault.name,
)
def test_cases_17_20_what_was_not_applied_is_sent_again_after_a_look(
    world: World, fault: CommitFault
) -> None:
    run = started(world, FIRST)
    world.plan(fault)
    publish(run, SECOND)
    assert world.met[Verdict.COMMIT] == 1
    assert commits(world) == 2


def test_case_22_a_request_that_is_applied_after_its_client_gave_up_lands_once(world: World) -> None:
    """P3: the batch was sent twice, and the catalog itself refuses the second of the two."""
    run = started(world, FIRST)
    world.plan(CommitFault.DELAYED)
    world.before(LoadFault, lambda: None)
    world.before(CommitFault, lambda: None)
    world.before(CommitFault, lambda: _settled(world))
    publish(run, SECOND)
    assert world.met[Verdict.LANDED] == 1
    assert commits(world) == 2


def test_case_22_a_late_request_of_a_run_that_was_restarted_changes_nothing(world: World) -> None:
    """P4: the claim of the new run fences what is still under way."""
    run = started(world, FIRST, attempts_max=1)
    world.plan(CommitFault.DELAYED)
    with pytest.raises(CommitUnknown, match=r"\[2, 4\) of sim.table may or may not be committed"):
        publish(run, SECOND)
    publish(started(world), SECOND)
    assert world.catalog.settle_pending() == 0
    assert commits(world) == 2


def _settled(world: World) -> None:
    assert world.catalog.settle_pending() == 1


def test_case_24_a_probe_that_fails_too_leaves_the_commit_unknown_and_its_files_in_place(
    world: World,
) -> None:
    run = started(world, FIRST, attempts_max=2)
    world.plan(CommitFault.APPLIED_500, LoadFault.FAILED_500, LoadFault.RESET, LoadFault.FAILED_500)
    with pytest.raises(CommitUnknown):
        publish(run, SECOND)
    assert not world.store.counts["delete metadata"]
    assert not world.store.counts["delete data"]
    world.script[LoadFault].clear()
    run.commit(run.waiting)
    assert commits(world) == 2


def test_case_24_a_409_whose_probe_fails_is_not_called_certain(world: World) -> None:
    """It may have been our own request, answered twice: `CommitConflict` would be a lie."""
    run = started(world, FIRST, attempts_max=1)
    world.plan(CommitFault.APPLIED_409, LoadFault.FAILED_500)
    with pytest.raises(CommitUnknown):
        publish(run, SECOND)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_a_conflict_after_a_lost_answer_is_not_called_certain(world: World) -> None:
    """The request whose answer was lost may still be under way."""
    run = started(world, FIRST, attempts_max=2)
    world.plan(CommitFault.DELAYED, CommitFault.REFUSED_409)
    with pytest.raises(CommitUnknown):
        publish(run, SECOND)
    _settled(world)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_a_conflict_is_certain_where_every_attempt_was_refused_and_the_table_shows_why(world: World) -> None:
    run = started(world, FIRST, attempts_max=1)
    world.before(CommitFault, lambda: foreign_insert(world, -1))
    with pytest.raises(CommitConflict, match="was not committed"):
        publish(run, SECOND)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_case_25_a_conflict_that_the_table_does_not_explain_stays_unknown(world: World) -> None:
    """The table is as it was before: it may be shown by a replica that lags behind a commit of ours."""
    run = started(world, FIRST, attempts_max=2)
    world.plan(CommitFault.REFUSED_409, CommitFault.REFUSED_409)
    with pytest.raises(CommitUnknown, match="may or may not"):
        publish(run, SECOND)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_case_25_a_stale_replica_is_asked_again(world: World) -> None:
    """What it shows is older than what the run has seen: nothing is concluded from it."""
    run = started(world, FIRST)
    world.catalog.replica = world.catalog.versions[0]
    world.plan(CommitFault.APPLIED_500, LoadFault.STALE)
    publish(run, SECOND)
    assert world.met[Verdict.STALE] == 1
    assert world.met[Verdict.LANDED] == 1
    assert commits(world) == 2


def test_case_25_a_claim_that_a_stale_replica_does_not_show_yet_is_not_lost(world: World) -> None:
    run = Run(world, attempts_max=3)
    world.catalog.replica = world.catalog.versions[0]
    world.before(CommitFault, lambda: world.plan(LoadFault.STALE))
    run.claim()
    assert world.met[LoadFault.STALE] == 1
    assert run.coordinator.progress.generation == 1


def test_case_26_a_401_in_the_middle_is_one_attempt_and_no_end(world: World) -> None:
    run = started(world, FIRST)
    world.plan(CommitFault.UNAUTHORIZED_401, LoadFault.UNAUTHORIZED_401)
    publish(run, SECOND)
    assert commits(world) == 2


def test_case_26_a_login_that_stays_expired_is_denied_and_the_batch_is_sent_again(world: World) -> None:
    run = started(world, FIRST)
    world.plan(CommitFault.UNAUTHORIZED_401, *[LoadFault.UNAUTHORIZED_401] * 100)
    with pytest.raises(AccessDenied, match="denies access"):
        publish(run, SECOND)
    world.script[LoadFault].clear()
    run.commit(run.waiting)
    assert commits(world) == 2


def test_case_27_a_403_stops_the_run_and_keeps_its_files(world: World) -> None:
    run = started(world, FIRST)
    world.plan(CommitFault.FORBIDDEN_403)
    with pytest.raises(AccessDenied, match="denies access"):
        publish(run, SECOND)
    assert all(world.store.exists(file.path) for ready in run.waiting for file in ready.files)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_case_28_a_table_that_was_dropped_is_not_created_again(world: World) -> None:
    run = started(world, FIRST)
    world.catalog.drop()
    with pytest.raises(TableMissing):
        publish(run, SECOND)
    with pytest.raises(TableMissing):
        started(world)
    assert world.catalog.current is None


def test_case_29_a_table_that_was_dropped_and_created_again_is_not_written_to(world: World) -> None:
    run = started(world, FIRST)
    world.catalog.drop()
    world.checker.ledger = Ledger()
    world.create_table()
    with pytest.raises(TableReplaced, match="another table"):
        publish(run, SECOND)
    assert not world.metadata.snapshots


def test_case_31_a_catalog_that_is_down_for_an_hour_is_waited_for_and_then_it_goes_on(world: World) -> None:
    """Every call of the caller is bounded; the batch waits, nothing is written a second time."""
    run = started(world, FIRST, attempts_max=3)
    run.write([SECOND])
    staged, began = len(world.store.rows), world.clock.ms
    world.weather = type(world.weather)(commit=1.0, load=1.0)
    while world.clock.ms - began < 3_600_000:
        world.script[CommitFault] = [CommitFault.LOST_RESET] * 3
        world.script[LoadFault] = [LoadFault.RESET] * 9
        with pytest.raises(CommitUnknown):
            run.commit(run.waiting)
        world.clock.ms += 600_000
    world.script = {kind: [] for kind in world.script}
    world.weather = type(world.weather)()
    run.commit(run.waiting)
    assert commits(world) == 2
    assert len(world.store.rows) == staged


# -- storage ----------------------------------------------------------------------------------------


def test_case_33_a_write_whose_answer_was_lost_leaves_an_orphan_and_no_second_batch(world: World) -> None:
    run = started(world, FIRST)
    world.plan(WriteFault.LOST_ANSWER)
    with pytest.raises(StoreError):
        publish(run, SECOND)
    run.commit(run.waiting)
    assert commits(world) == 2


def test_a_base_whose_files_were_compacted_and_expired_is_read_again() -> None:
    """Case 40: the manifests that this run meant to merge are gone; the table has moved on."""
    world = World(3, Setting(properties={"commit.manifest.min-count-to-merge": "2"}))
    started(world, FIRST)
    run = started(world)
    run.write([SECOND])
    world.foreign.compact(partial=False)
    world.foreign.expire(erase_parents=False)
    run.commit(run.waiting)
    publish(run, THIRD)
    world.foreign.compact(partial=False)
    world.foreign.expire(erase_parents=True)
    publish(started(world), Batch(6, 8))
    assert frontier(world) == 8


# -- others at work ---------------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [True, False], ids=["partial", "full"])
def test_case_38_a_compaction_during_a_batch_brings_no_row_back_and_loses_none(
    world: World, partial: bool
) -> None:
    run = started(world, FIRST, SECOND)
    before = world.metadata.current_snapshot()
    done: list[bool] = []
    world.before(CommitFault, lambda: done.append(world.foreign.compact(partial)))
    publish(run, THIRD)
    publish(run, Batch(6, 8))
    # One that began before those batches and ends after them.
    world.foreign.compact(partial=True, since=before)
    world.checker.at_the_end(world.metadata)
    assert done == [True]


@pytest.mark.parametrize("erase_parents", [True, False], ids=["parents erased", "parents kept"])
def test_case_40_expiry_of_everything_untagged_leaves_progress(world: World, erase_parents: bool) -> None:
    """P6: also where a claim, which no commit followed, is all that the tag names."""
    started(world, FIRST, SECOND)
    started(world)
    foreign_insert(world, -1)
    foreign_insert(world, -2)
    world.foreign.expire(erase_parents)
    run = started(world)
    assert run.coordinator.progress.frontier == 4
    publish(run, THIRD)


def test_case_41_a_users_insert_is_tolerated_and_counted(world: World) -> None:
    run = started(world, FIRST)
    foreign_insert(world, 0, -1)
    publish(run, SECOND)
    assert run.coordinator.foreign.rows == 2


def test_case_41_a_users_insert_that_was_seen_by_a_refresh_is_counted_too(world: World) -> None:
    run = started(world, FIRST)
    foreign_insert(world, 0, -1)
    run.coordinator.refresh()
    publish(run, SECOND)
    publish(run, THIRD)
    assert run.coordinator.foreign.rows == 2


def test_case_41_a_users_insert_stops_a_sink_that_was_told_to_halt(world: World) -> None:
    run = Run(world, halt_on_foreign_rows=True, attempts_max=3)
    run.claim()
    publish(run, FIRST)
    foreign_insert(world, -1)
    run.coordinator.refresh()
    with pytest.raises(ForeignRows):
        publish(run, SECOND)
    assert frontier(world) == 2


def rolled_back(world: World) -> None:
    world.met["rolled back"] += 1
    chain = [snapshot for snapshot in world.metadata.snapshots if snapshot.sequence_number == 2]
    world.foreign.restore_main(chain[0].snapshot_id)


def test_case_42_a_rollback_stops_the_run_and_every_later_one(world: World) -> None:
    run = started(world, FIRST, SECOND)
    main = world.metadata.current_snapshot_id
    rolled_back(world)
    with pytest.raises(RolledBack, match="does not descend"):
        publish(run, THIRD)
    with pytest.raises(RolledBack):
        started(world)
    assert main is not None
    world.foreign.restore_main(main)
    publish(started(world), THIRD)


def test_case_42_a_rollback_in_the_middle_of_a_retry_stops_the_run(world: World) -> None:
    run = started(world, FIRST, SECOND)
    world.plan(CommitFault.LOST_500)
    world.before(LoadFault, lambda: rolled_back(world))
    with pytest.raises(RolledBack):
        publish(run, THIRD)


def test_case_42_a_rollback_that_a_refresh_showed_is_not_built_on(world: World) -> None:
    run = started(world, FIRST, SECOND)
    rolled_back(world)
    run.coordinator.refresh()
    with pytest.raises(RolledBack):
        publish(run, THIRD)


def test_case_42_a_rollback_behind_a_landed_commit_whose_answer_was_lost_is_not_built_on(
    world: World,
) -> None:
    """The batch had landed, so its call succeeds; the next one must not fill the hole with its own rows."""
    run = started(world, FIRST)
    world.plan(CommitFault.APPLIED_500)
    world.before(LoadFault, lambda: rolled_back(world))
    publish(run, SECOND)
    with pytest.raises(RolledBack):
        publish(run, THIRD)


def test_case_42_a_rollback_between_a_claim_and_its_reading_is_not_built_on(world: World) -> None:
    started(world, FIRST, SECOND)
    run = Run(world, attempts_max=3)
    world.before(LoadFault, lambda: None)
    world.before(LoadFault, lambda: rolled_back(world))
    run.claim()
    with pytest.raises(RolledBack):
        publish(run, THIRD)


def test_case_43_a_column_that_was_added_underneath_lets_the_sink_go_on(world: World) -> None:
    run = started(world, FIRST)
    world.before(CommitFault, world.foreign.add_column)
    publish(run, SECOND)
    publish(run, THIRD)
    assert frontier(world) == 6


def test_case_43_a_spec_that_was_changed_underneath_is_the_spec_of_the_next_batch(world: World) -> None:
    """The batch in hand lands with its own spec, or is written again; the next has the new one."""
    run = started(world, FIRST)
    run.write([SECOND])
    world.foreign.set_spec(BY_SHARD.fields)
    try:
        run.commit(run.waiting)
    except PremiseBroken:
        publish(run, SECOND)
    publish(run, THIRD)
    assert frontier(world) == 6
    assert world.metadata.default_spec_id in live_specs(run.coordinator.base)


def test_case_43_a_column_that_was_dropped_underneath_has_the_batch_written_again(world: World) -> None:
    run = started(world, FIRST)
    run.write([SECOND])
    world.foreign.drop_column("val")
    with pytest.raises(PremiseBroken, match="column val was dropped"):
        run.commit(run.waiting)
    publish(run, SECOND)
    assert frontier(world) == 4


# -- found in review --------------------------------------------------------------------------------


def test_case_62_an_insert_into_the_table_that_was_empty_has_the_batch_written_again(world: World) -> None:
    run = started(world)
    world.before(CommitFault, lambda: foreign_insert(world, 0, 1))
    with pytest.raises(PremiseBroken, match="was empty"):
        publish(run, FIRST)
    publish(run, FIRST)
    assert frontier(world) == 2


def test_case_62_files_of_another_spec_have_scoped_deletes_written_again() -> None:
    world = World(3, Setting(partitioned=True))
    run = started(world, FIRST)
    run.write([SECOND])
    world.foreign.set_spec(())
    foreign_insert(world, 0, 1, 2, 3, 4)
    with pytest.raises(PremiseBroken, match="partition spec"):
        run.commit(run.waiting)
    publish(run, SECOND)


def test_case_62_a_column_added_under_the_id_that_a_batch_meant_to_use(world: World) -> None:
    run = started(world, FIRST)
    run.waiting = world.worker.write_group(run.coordinator.base, [SECOND], evolve=True)
    world.foreign.add_column()
    with pytest.raises(PremiseBroken, match="schema was changed"):
        run.commit(run.waiting)
    publish(run, SECOND)


def test_a_group_whose_batches_all_bring_a_schema_adds_it_once(world: World) -> None:
    run = started(world, FIRST)
    group = world.worker.write_group(run.coordinator.base, [SECOND, THIRD], evolve=True)
    run.commit(group)
    assert [schema.schema_id for schema in world.metadata.schemas] == [0, 1]
    assert world.metadata.current_schema_id == 1


def test_case_64_a_catalog_that_keeps_no_tag_is_refused() -> None:
    world = World(3, Setting(keeps_tags=False))
    with pytest.raises(CatalogWithoutTags, match="keeps no tag"):
        started(world)


@pytest.mark.parametrize("limited", [True, False])
def test_case_65_the_tag_gets_the_longest_age_where_the_table_limits_it(limited: bool) -> None:
    world = World(3, Setting())
    if limited:
        world.catalog.apply((), (SetPropertiesUpdate(updates={"history.expire.max-ref-age-ms": "1"}),))
    started(world, FIRST)
    tag = world.metadata.refs[tag_name(SINK)]
    assert tag.max_ref_age_ms == (2**63 - 1 if limited else None)


def test_a_tag_that_was_removed_by_hand_stops_every_run(world: World) -> None:
    """P6: also after everything that told of the sink was expired; it never begins again from zero."""
    run = started(world, FIRST)
    world.foreign.remove_tag()
    world.met["tag removed"] += 1
    with pytest.raises(Diverged):
        publish(run, SECOND)
    world.foreign.compact(partial=False)
    world.foreign.expire(erase_parents=True)
    with pytest.raises(Diverged, match="its tag"):
        started(world)


def test_batches_of_a_group_that_was_in_doubt_and_is_sent_in_part_stop_the_run(world: World) -> None:
    run = started(world, FIRST, attempts_max=1)
    world.plan(CommitFault.APPLIED_500, LoadFault.FAILED_500)
    group = run.write([SECOND, THIRD])
    with pytest.raises(CommitUnknown):
        run.commit(group)
    world.met["tag removed"] += 1  # so that the checker takes the refusal
    with pytest.raises(Diverged, match="landed with other bounds"):
        run.coordinator.commit(group[:1])
    assert frontier(world) == 6


def test_p7_a_commit_reads_and_lists_no_data(world: World) -> None:
    started(world, FIRST, SECOND, THIRD)
    assert world.store.counts["read data"] == 0
    assert world.store.counts["delete data"] == 0
    assert not hasattr(world.store, "list")


def test_what_this_sink_committed_itself_is_never_foreign(world: World) -> None:
    """A commit whose answer was lost, and those of a run that fenced this one, seen by a refresh."""
    run = Run(world, halt_on_foreign_rows=True, attempts_max=1)
    run.claim()
    publish(run, FIRST)
    world.plan(CommitFault.APPLIED_500, LoadFault.FAILED_500)
    with pytest.raises(CommitUnknown):
        publish(run, SECOND)
    run.coordinator.refresh()
    publish(run, SECOND)
    started(world, THIRD)
    run.coordinator.refresh()
    with pytest.raises(Fenced):
        publish(run, THIRD)
    assert run.coordinator.foreign.snapshots == 0
