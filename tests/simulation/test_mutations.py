"""Proof that the simulation can see: each line of the protocol that is broken on purpose makes seeds fail.

A mutation is a guard taken out of the real code. If the checker stays silent over all seeds, either the
guard is not needed or the simulation is blind to what it guards against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID

from calve.config.sink import FenceKind
from calve.model.progress import tag_name
from calve.protocol.judge import Intent, Look, Verdict, judge
from calve.runtime import coordinator
from calve.runtime.coordinator import Coordinator
from calve.table import build, fence, lists, manifests, merge
from calve.table.build import Builder
from calve.table.fence import MainFence, TagFence
from calve.table.lineage import Lineage
from tests.simulation.ledger import SINK, Violation
from tests.simulation.schedule import SeedFailed, run_seed

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SEEDS_MAX = 150

Patch = Callable[[pytest.MonkeyPatch], None]


def no_tag_requirement(patch: pytest.MonkeyPatch) -> None:
    required = TagFence._required
    patch.setattr(TagFence, "_required", lambda self, metadata, held: required(self, metadata, held)[:1])


def unknown_taken_for_not_applied(patch: pytest.MonkeyPatch) -> None:
    """Every attempt under a new snapshot id, as if the one before had never been sent."""
    send = Coordinator.send

    def forget(self: Coordinator, request: Any) -> Any:
        sent = send(self, request)
        self._doubts = ()
        return sent

    def intent(self: Coordinator, prepared: Any) -> Intent:
        return replace(real_intent(self, prepared), snapshot_ids=(self.draw_snapshot_id(),))

    real_intent = Coordinator._intent
    patch.setattr(Coordinator, "send", forget)
    patch.setattr(Coordinator, "_intent", intent)


def old_sequence_number_on_a_retry(patch: pytest.MonkeyPatch) -> None:
    """The numbers of the first attempt stay in the manifests' rows (T3)."""
    assigned = lists._assigned

    def in_place(manifest: dict[str, Any], number: int) -> dict[str, Any]:
        manifest.update(assigned(manifest, number))
        return manifest

    patch.setattr(lists, "_assigned", in_place)


def no_premises(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator, "broken", lambda *_: ())


def judge_without_landed(patch: pytest.MonkeyPatch) -> None:
    def blind(intent: Intent, look: Look) -> Verdict:
        return judge(replace(intent, snapshot_ids=()), replace(look, ours=frozenset()))

    patch.setattr(coordinator, "judge", blind)


def merge_that_drops_an_entry(patch: pytest.MonkeyPatch) -> None:
    merged = manifests.merged_manifest

    def dropping(io: Any, location: str, shape: Any, snapshot_id: int, inputs: Any, entries: Any) -> Any:
        return merged(io, location, shape, snapshot_id, inputs, entries[1:])

    patch.setattr(merge, "merged_manifest", dropping)


def merge_that_loses_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """Merged entries under the number of the merge: older deletes no longer reach them."""
    patch.setattr(
        merge,
        "settled",
        lambda entries, row: tuple(
            replace(
                entry,
                sequence_number=row["sequence_number"] + 1,
                file_sequence_number=row["sequence_number"] + 1,
            )
            for entry in entries
        ),
    )


def rolled_back_main_is_built_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "trace", lambda *_: Lineage(descends=True))


def base_is_not_judged_before_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinator, "_check_lineage", lambda self: None)


def first_claim_without_main(patch: pytest.MonkeyPatch) -> None:
    """A first claim that asks nothing of main takes the table's sequence number back."""
    claim = Builder.claim

    def loose(self: Builder, base: Any, *rest: Any) -> Any:
        attempt = claim(self, base, *rest)
        kept = tuple(
            requirement
            for requirement in attempt.requirements
            if not isinstance(requirement, AssertRefSnapshotId) or requirement.ref == tag_name(SINK)
        )
        added, *others = attempt.updates
        if tag_name(SINK) not in base.metadata.refs:
            assert isinstance(added, AddSnapshotUpdate)
            orphan = added.snapshot.model_copy(update={"parent_snapshot_id": None})
            added = added.model_copy(update={"snapshot": orphan})
        return replace(attempt, requirements=kept, updates=(added, *others))

    patch.setattr(Builder, "claim", loose)


def batches_of_a_group_share_a_sequence_number(patch: pytest.MonkeyPatch) -> None:
    extend = build._Tip.extend

    def same(self: Any, base: Any, item: Any, schema_id: int) -> Any:
        tip, snapshot = extend(self, base, item, schema_id)
        return replace(tip, sequence=self.sequence), snapshot

    patch.setattr(build._Tip, "extend", same)


def conflict_is_always_certain(patch: pytest.MonkeyPatch) -> None:
    given_up = Coordinator._given_up
    patch.setattr(
        Coordinator,
        "_given_up",
        lambda self, prepared, sent, certain: given_up(self, prepared, sent, certain=True),
    )


def lost_tag_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TagFence, "check_begin", lambda *_: None)


# -- of the fence on main ------------------------------------------------------------------------------


def no_main_requirement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "_main_is", lambda metadata: AssertTableUUID(uuid=metadata.table_uuid))


def progress_taken_from_the_tag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MainFence, "find", TagFence.find)


def another_runs_claim_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """The run that was refused takes what moved main for somebody else's commit, and builds on it."""
    patch.setattr(coordinator, "judge", lambda intent, look: judge(intent, replace(look, held=intent.held)))
    base_is_not_judged_before_a_commit(patch)


def main_may_go_back_behind_a_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MainFence, "root", TagFence.root)


def older_metadata_files_are_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "look_up", lambda metadata, snapshot_id, _: metadata.snapshot_by_id(snapshot_id))


def lost_property_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MainFence, "check_begin", lambda *_: None)


def property_stays_behind(patch: pytest.MonkeyPatch) -> None:
    """A commit that moves main and leaves the note of the sink's progress where it was."""
    of_commit = MainFence.of_commit

    def alone(self: MainFence, metadata: Any, held: int, snapshot_id: int) -> Any:
        moves = of_commit(self, metadata, held, snapshot_id)
        return replace(moves, updates=moves.updates[:1])

    patch.setattr(MainFence, "of_commit", alone)


ON_MAIN: tuple[Patch, ...] = (
    no_main_requirement,
    progress_taken_from_the_tag,
    another_runs_claim_is_not_noticed,
    main_may_go_back_behind_a_claim,
    older_metadata_files_are_not_read,
    lost_property_is_not_noticed,
    property_stays_behind,
    rolled_back_main_is_built_on,
    unknown_taken_for_not_applied,
    judge_without_landed,
)

MUTATIONS: tuple[Patch, ...] = (
    no_tag_requirement,
    unknown_taken_for_not_applied,
    old_sequence_number_on_a_retry,
    no_premises,
    judge_without_landed,
    merge_that_drops_an_entry,
    merge_that_loses_sequence_numbers,
    rolled_back_main_is_built_on,
    base_is_not_judged_before_a_commit,
    first_claim_without_main,
    batches_of_a_group_share_a_sequence_number,
    conflict_is_always_certain,
    lost_tag_is_not_noticed,
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_code_that_is_broken_on_purpose_is_found_out(
    mutation: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(SeedFailed) as failed:
        play(SEEDS_MAX)
    assert isinstance(failed.value.__cause__, Violation), failed.value


@pytest.mark.parametrize("mutation", ON_MAIN, ids=lambda mutation: mutation.__name__)
def test_a_fence_on_main_that_is_broken_on_purpose_is_found_out(
    mutation: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(SeedFailed) as failed:
        play(SEEDS_MAX, FenceKind.MAIN)
    assert isinstance(failed.value.__cause__, Violation), failed.value


def play(seeds: int, fence: FenceKind = FenceKind.TAG) -> None:
    for seed in range(seeds):
        run_seed(seed, fence)
