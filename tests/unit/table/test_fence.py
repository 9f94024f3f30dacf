"""The two fences, on a real catalog: what a claim and a commit require and move, and where progress is found.

The simulation plays them under faults; here is what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from calve import (
    CatalogWithoutTags,
    Diverged,
    Fenced,
    IcebergSink,
    RolledBack,
    SinkConfig,
    TableDiffers,
)
from calve.config.sink import FenceKind
from calve.model.progress import Progress, claimed_property, fence_property, tag_name
from calve.table.base import read_base
from calve.table.build import Builder
from calve.table.catalogs import open_catalog
from calve.table.fence import MainFence, TagFence, fence_kind, read_progress
from tests.support.sinks import NAME, commit
from tests.support.tagless import Tagless, tagless
from tests.support.truth import entries_of, rows_of, snapshots_of_main, summary_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})
SINK, ANOTHER = "ns.t", "audit"


@dataclass
class Lake:
    """A warehouse whose catalog keeps tags, or does not."""

    config: SinkConfig
    catalog: Catalog

    def sink(self, fence: str = "main", sink_id: str = SINK) -> IcebergSink:
        config = self.config.replace(fence=fence, sink_id=sink_id)
        return IcebergSink(config, catalog=self.catalog)

    def load(self) -> Table:
        return self.catalog.load_table(NAME)

    def noted(self) -> str | None:
        return self.load().metadata.properties.get(fence_property(SINK))

    def apply(self, *updates: TableUpdate) -> None:
        self.catalog.commit_table(self.load(), (), updates)

    def note(self, snapshot_id: object) -> None:
        self.apply(SetPropertiesUpdate(updates={fence_property(SINK): str(snapshot_id)}))

    def roll_back_to(self, snapshot_id: int) -> None:
        self.apply(
            SetSnapshotRefUpdate(
                ref_name="main",
                type="branch",
                snapshot_id=snapshot_id,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            )
        )

    def append(self, rows: pa.Table) -> None:
        table = self.load()
        table.append(rows.cast(table.schema().as_arrow()))

    def expire(self) -> None:
        """All that no ref names."""
        table = self.load()
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in kept]
        table.maintenance.expire_snapshots().by_ids(gone).commit()


@pytest.fixture(
    params=["tags are lost", "tags are kept", pytest.param("iceberg-rest", marks=pytest.mark.servers)]
)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """Any catalog: the fence on main does not rely on one without tags."""
    if request.param != "iceberg-rest":
        yield from _made({"warehouse": str(tmp_path / "w")}, loses_tags=request.param == "tags are lost")
        return
    for made in _made({"uri": request.getfixturevalue("iceberg_rest").uri}, loses_tags=True):
        if made.catalog.table_exists(NAME):
            made.catalog.drop_table(NAME)
        yield made


@pytest.fixture
def without_tags(tmp_path: Path) -> Iterator[Lake]:
    yield from _made({"warehouse": str(tmp_path / "w")}, loses_tags=True)


@pytest.fixture
def with_tags(tmp_path: Path) -> Iterator[Lake]:
    yield from _made({"warehouse": str(tmp_path / "w")}, loses_tags=False)


def _made(place: dict[str, str], *, loses_tags: bool) -> Iterator[Lake]:
    config = SinkConfig(namespace="ns", table="t", mode="upsert", key="id", catalog=place)
    catalog = open_catalog(config.catalog)
    yield Lake(config, tagless(catalog) if loses_tags else catalog)
    catalog.close()


# -- a claim ---------------------------------------------------------------------------------------


def test_a_claim_on_main_is_a_snapshot_that_changes_no_row(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 4, ROWS)
        commit(sink, 9, MORE)
    before = lake.load()
    with lake.sink():
        pass
    after = lake.load()
    claim, parent = after.current_snapshot(), before.current_snapshot()
    assert claim is not None
    assert parent is not None
    assert claim.parent_snapshot_id == parent.snapshot_id
    assert claim.manifest_list != parent.manifest_list
    assert entries_of(claim) == entries_of(parent)
    assert rows_of(after) == rows_of(before)
    assert summary_of(claim)["operation"] == "append"
    assert not [name for name in summary_of(claim) if name.startswith(("added-", "deleted-", "removed-"))]
    assert summary_of(claim)["total-records"] == summary_of(parent)["total-records"]
    assert set(after.metadata.refs) == {"main"}
    assert lake.noted() == str(claim.snapshot_id)


def test_a_claim_on_main_copies_progress_under_the_next_generation(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 4, ROWS)
    known = read_progress(lake.load(), SINK)
    with lake.sink() as sink:
        assert sink.frontier() == 5
    claimed = read_progress(lake.load(), SINK)
    assert known is not None
    assert claimed is not None
    assert (known.generation, claimed.generation) == (1, 2)
    assert claimed.writer != known.writer
    assert replace(claimed, generation=1, writer=known.writer) == known


def test_of_two_claims_on_one_main_the_second_is_refused(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    base = read_base(lake.load())
    known = read_progress(base.table, SINK)
    assert known is not None
    attempts = [Builder(MainFence(SINK)).claim(base, known, number, now_ms=1) for number in (1, 2)]
    lake.catalog.commit_table(base.table, attempts[0].requirements, attempts[0].updates)
    with pytest.raises(CommitFailedException):
        lake.catalog.commit_table(base.table, attempts[1].requirements, attempts[1].updates)
    assert lake.noted() == "1"


def test_of_two_first_claims_the_second_is_refused(lake: Lake) -> None:
    lake.catalog.create_namespace_if_not_exists("ns")
    table = lake.catalog.create_table(NAME, pa.schema([("id", pa.int64())]))
    attempts = []
    for number in (1, 2):
        progress = Progress(SINK, 0, 0, 1, uuid4(), "epoch")
        attempts.append(Builder(MainFence(SINK)).claim(read_base(table), progress, number, now_ms=1))
    lake.catalog.commit_table(table, attempts[0].requirements, attempts[0].updates)
    with pytest.raises(CommitFailedException):
        lake.catalog.commit_table(table, attempts[1].requirements, attempts[1].updates)
    assert [one.snapshot_id for one in snapshots_of_main(lake.load())] == [1]


def test_nothing_is_said_of_any_ref_but_main(without_tags: Lake) -> None:
    """Such a catalog may refuse to hear of another."""
    with without_tags.sink() as sink:
        commit(sink, 0, ROWS)
    with without_tags.sink() as sink:
        commit(sink, 1, MORE)
    assert isinstance(without_tags.catalog, Tagless)
    assert without_tags.catalog.refs_named == {"main"}


def test_every_attempt_requires_main_as_it_was_read(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    metadata, fence = lake.load().metadata, MainFence(SINK)
    held = fence.find(lake.load())
    for moves in (fence.of_claim(metadata, held, 7), fence.of_commit(metadata, 5, 7)):
        (main,) = (one for one in moves.requirements if isinstance(one, AssertRefSnapshotId))
        assert (main.ref, main.snapshot_id) == ("main", metadata.current_snapshot_id)
        moved = [one for one in moves.updates if isinstance(one, SetSnapshotRefUpdate)]
        assert [(one.ref_name, one.snapshot_id) for one in moved] == [("main", 7)]
        assert not [one for one in moves.updates if isinstance(one, AddSnapshotUpdate)]


def test_p4_the_older_run_is_fenced_and_changes_nothing(lake: Lake) -> None:
    first = lake.sink().open()
    commit(first, 0, ROWS)
    second = lake.sink().open()
    first.begin_epoch(1)
    first.write_batch(MORE)
    before = lake.load().metadata
    with pytest.raises(Fenced, match="generation 2"):
        first.commit_epoch(1)
    assert lake.load().metadata == before
    commit(second, 1, MORE)
    assert len(rows_of(lake.load())) == 3


def test_two_sinks_of_one_table_do_not_fence_one_another(lake: Lake) -> None:
    one, other = lake.sink().open(), lake.sink(sink_id=ANOTHER).open()
    commit(one, 0, ROWS)
    other = lake.sink(sink_id=ANOTHER).open() if other.schema() is None else other
    commit(other, 7, MORE)
    commit(one, 1, pa.table({"id": [9], "v": ["z"]}))
    progress = [read_progress(lake.load(), sink_id) for sink_id in (SINK, ANOTHER)]
    assert [one and one.frontier for one in progress] == [2, 8]
    assert one.metrics().foreign_rows == 2


# -- where progress is found -----------------------------------------------------------------------


def test_p6_progress_is_found_below_foreign_commits_and_after_expiry(lake: Lake) -> None:
    """Case 40. The snapshot with the progress is in an older metadata file alone."""
    with lake.sink() as sink:
        commit(sink, 3, ROWS)
        held = lake.noted()
    lake.append(pa.table({"id": [7], "v": ["theirs"]}))
    lake.expire()
    table = lake.load()
    assert held is not None
    assert table.snapshot_by_id(int(held)) is None
    progress = read_progress(table, SINK)
    assert progress is not None
    assert progress.frontier == 4
    with lake.sink() as sink:
        assert sink.frontier() == 4
        commit(sink, 4, MORE)
    assert len(rows_of(lake.load())) == 4


def test_p6_progress_that_is_expired_everywhere_is_refused(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 3, ROWS)
    lake.append(pa.table({"id": [7], "v": ["theirs"]}))
    lake.expire()
    for entry in lake.load().metadata.metadata_log:
        lake.load().io.delete(entry.metadata_file)
    before = lake.load().metadata
    with pytest.raises(Diverged, match="no metadata file that is left") as refused:
        lake.sink().open()
    assert "does not begin again" in refused.value.hint
    assert lake.load().metadata == before


@pytest.mark.parametrize("said", ["", "none", "-1", "12", "9" * 40])
def test_a_property_that_names_no_snapshot_is_refused(lake: Lake, said: str) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    lake.note(said)
    with pytest.raises(Diverged, match="is not the"):
        lake.sink().open()


def test_a_property_that_names_another_sinks_snapshot_is_refused(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    with lake.sink(sink_id=ANOTHER) as sink:
        commit(sink, 0, MORE)
    lake.note(lake.load().metadata.properties[fence_property(ANOTHER)])
    with pytest.raises(Diverged, match="is not the sink's"):
        lake.sink().open()


def test_p6_a_property_that_was_removed_stops_every_run(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    lake.apply(RemovePropertiesUpdate(removals=[fence_property(SINK)]))
    with pytest.raises(Diverged, match="neither its tag nor its property") as refused:
        lake.sink().open()
    assert fence_property(SINK) in refused.value.hint


def test_a_run_whose_property_was_removed_stops_before_it_commits(lake: Lake) -> None:
    sink = lake.sink().open()
    commit(sink, 0, ROWS)
    lake.append(pa.table({"id": [7], "v": ["theirs"]}))
    lake.apply(RemovePropertiesUpdate(removals=[fence_property(SINK)]))
    before = lake.load().metadata
    with pytest.raises(Diverged, match="contradicts this run"):
        commit(sink, 1, MORE)
    assert lake.load().metadata == before


# -- rollbacks -------------------------------------------------------------------------------------


def test_case_42_main_behind_a_claim_stops_every_run(lake: Lake) -> None:
    """Though no row is lost: an older run could build on such a main."""
    with lake.sink() as sink:
        committed = commit(sink, 0, ROWS).snapshot_id
    assert committed is not None
    sink = lake.sink().open()
    held = lake.noted()
    lake.roll_back_to(committed)
    with pytest.raises(RolledBack, match=f"descend from snapshot {held}"):
        commit(sink, 1, MORE)
    with pytest.raises(RolledBack, match=f"descend from snapshot {held}"):
        lake.sink().open()


def test_a_person_who_wants_the_older_state_says_so_in_the_property(lake: Lake) -> None:
    with lake.sink() as sink:
        first = commit(sink, 0, ROWS).snapshot_id
        commit(sink, 1, MORE)
    assert first is not None
    lake.roll_back_to(first)
    lake.note(first)
    with lake.sink() as sink:
        assert sink.frontier() == 1
        commit(sink, 1, MORE)
    assert len(rows_of(lake.load())) == 3


def test_a_request_from_before_a_rollback_is_refused_for_its_sequence_number(lake: Lake) -> None:
    """Main is back where it was when the request was built, so that its requirements hold."""
    with lake.sink() as sink:
        parent = commit(sink, 0, ROWS).snapshot_id
    assert parent is not None
    base = read_base(lake.load())
    known = read_progress(base.table, SINK)
    assert known is not None
    late = Builder(MainFence(SINK)).claim(base, known, 77, now_ms=1)
    with lake.sink():
        pass
    lake.roll_back_to(parent)
    with pytest.raises((ValueError, CommitFailedException), match="older than last sequence number"):
        lake.catalog.commit_table(lake.load(), late.requirements, late.updates)


# -- the one and the other -------------------------------------------------------------------------


def test_case_64_a_catalog_without_tags_is_refused_and_told_of_the_other_fence(without_tags: Lake) -> None:
    """Nothing was committed: the same sink begins as it is told to."""
    sink = without_tags.sink("tag").open()
    sink.begin_epoch(0)
    with pytest.raises(CatalogWithoutTags, match="keeps no tag") as refused:
        sink.write_batch(ROWS)
    assert "fence = 'main'" in refused.value.hint
    assert claimed_property(SINK) in without_tags.load().metadata.properties
    with pytest.raises(Diverged, match="its tag") as refused_again:
        without_tags.sink("tag").open()
    assert "fence = 'main'" in refused_again.value.hint
    with without_tags.sink() as sink:
        commit(sink, 0, ROWS)
    assert len(rows_of(without_tags.load())) == 2


def test_a_sink_with_a_tag_does_not_go_on_without(with_tags: Lake) -> None:
    with with_tags.sink("tag") as sink:
        commit(sink, 0, ROWS)
    before = with_tags.load().metadata
    with pytest.raises(TableDiffers, match="was begun with a tag"):
        with_tags.sink().open()
    assert with_tags.load().metadata == before


def test_p6_a_sink_whose_tag_was_lost_after_a_commit_does_not_begin_again_on_main(with_tags: Lake) -> None:
    with with_tags.sink("tag") as sink:
        committed = commit(sink, 0, ROWS).snapshot_id
    with_tags.apply(RemoveSnapshotRefUpdate(ref_name=tag_name(SINK)))
    with pytest.raises(Diverged, match="neither its tag nor its property") as refused:
        with_tags.sink().open()
    assert f"Set {fence_property(SINK)}" in refused.value.hint
    with_tags.note(committed)
    with with_tags.sink() as sink:
        assert sink.frontier() == 1, "as the hint says"


def test_a_sink_on_main_does_not_go_on_with_a_tag(lake: Lake) -> None:
    with lake.sink() as sink:
        commit(sink, 0, ROWS)
    before = lake.load().metadata
    with pytest.raises(TableDiffers, match="begun with fence = 'main'"):
        lake.sink("tag").open()
    assert lake.load().metadata == before


def test_a_person_takes_a_sink_from_a_tag_to_main_and_back(with_tags: Lake) -> None:
    """As decision 0018 says; what is left of the other fence does not matter."""
    with with_tags.sink("tag") as sink:
        commit(sink, 0, ROWS)
    older = with_tags.sink("tag").open()
    progress = read_progress(with_tags.load(), SINK)
    assert progress is not None
    with_tags.note(progress.committed)
    with_tags.apply(RemoveSnapshotRefUpdate(ref_name=tag_name(SINK)))
    with with_tags.sink() as sink:
        commit(sink, 1, MORE)
        with pytest.raises(Diverged):
            commit(older, 1, MORE)
        held = int(with_tags.noted() or 0)
    with_tags.load().manage_snapshots().create_tag(held, tag_name(SINK)).commit()
    with_tags.apply(RemovePropertiesUpdate(removals=[fence_property(SINK)]))
    with with_tags.sink("tag") as sink:
        assert sink.frontier() == 2
        commit(sink, 2, pa.table({"id": [4], "v": ["d"]}))
    assert len(rows_of(with_tags.load())) == 4


def test_a_tag_that_comes_beside_a_claim_on_main_stops_the_run_on_main(with_tags: Lake) -> None:
    sink = with_tags.sink().open()
    commit(sink, 0, ROWS)
    with_tags.load().manage_snapshots().create_tag(
        with_tags.load().metadata.current_snapshot_id or 0, tag_name(SINK)
    ).commit()
    with_tags.append(pa.table({"id": [7], "v": ["theirs"]}))
    with pytest.raises(TableDiffers, match="was begun with a tag"):
        commit(sink, 1, MORE)


def test_the_table_shows_which_fence_a_sink_has(with_tags: Lake) -> None:
    with with_tags.sink() as sink:
        commit(sink, 0, ROWS)
    with with_tags.sink("tag", ANOTHER) as sink:
        commit(sink, 0, ROWS)
    metadata = with_tags.load().metadata
    kinds = [fence_kind(metadata, sink_id) for sink_id in (SINK, ANOTHER, "nobody")]
    assert kinds == [FenceKind.MAIN, FenceKind.TAG, FenceKind.TAG]
    held = TagFence(ANOTHER).find(with_tags.load())
    assert held is not None
    assert held.progress == read_progress(with_tags.load(), ANOTHER)
