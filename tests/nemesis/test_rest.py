"""The nemesis on a REST catalog and an object store: a short run for every day, and long ones for the night.

A file of its own, because test processes share out files, and this takes as long as the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.checker import Violation
from tests.nemesis.faults import steps_on
from tests.nemesis.kinds import KINDS
from tests.nemesis.lakes import RestLake, rest_lakes
from tests.nemesis.mutations import MUTATIONS, Mutation
from tests.nemesis.nemesis import Nemesis, Plan, report
from tests.nemesis.processes import session_of
from tests.nemesis.stage import Stage
from tests.nemesis.stories import STORIES, Story
from tests.support.cluster import standalone_cluster
from tests.support.servers.seaweedfs import SeaweedFS

pytestmark = pytest.mark.spark

SEED = 11


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    from tests.support.readers import duck_reader

    with duck_reader() as reader:
        yield reader.connection


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_again_and_again_leaves_a_table_that_is_right(
    spark: Any, duck: Any, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    plan = Plan(
        SEED,
        seconds=400,
        kinds=("upsert-maximum",),
        round_seconds=400,
        kills_max=3,
        only=(
            "kill at a step",
            "others at work",
        ),  # what store and catalog see; the rest is for the night
    )
    nemesis = Nemesis(plan, tmp_path, duck, spark, lakes=rest_lakes(seaweedfs))
    tally = nemesis.run()
    print(report(nemesis))
    assert tally.killed >= 3
    assert set(steps_on(RestLake)) <= nemesis.steps_reached()
    assert not [pid for driver in nemesis.drivers for pid in session_of(driver)]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_right_after_many_kills(
    kind: str, spark: Any, duck: Any, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    plan = Plan(SEED + 1, seconds=400, kinds=(kind,), round_seconds=200)
    nemesis = Nemesis(plan, tmp_path, duck, spark, lakes=rest_lakes(seaweedfs))
    tally = nemesis.run()
    print(report(nemesis))
    assert tally.killed >= 10


@pytest.mark.nightly
@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
def test_a_story_ends_well(story: Story, spark: Any, duck: Any, tmp_path: Path, seaweedfs: SeaweedFS) -> None:
    story.tell(Stage(spark, duck, tmp_path, KINDS[story.kind], rest_lakes(seaweedfs)))


@pytest.mark.nightly
@pytest.mark.parametrize("mutation", [pytest.param(one, id=one.name) for one in MUTATIONS])
def test_code_that_is_broken_on_purpose_is_found_out(
    mutation: Mutation,
    spark: Any,
    duck: Any,
    tmp_path: Path,
    seaweedfs: SeaweedFS,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checker sees on this lake what it sees on the other."""
    (kind,) = (story.kind for story in STORIES if story.tell is mutation.story)
    stage = Stage(spark, duck, tmp_path, KINDS[kind], rest_lakes(seaweedfs))
    mutation.break_it(monkeypatch)
    with pytest.raises(Violation):
        mutation.story(stage)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_cluster_that_loses_executors_and_drivers_leaves_a_table_that_is_right(
    spark: Any, duck: Any, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    with standalone_cluster(tmp_path / "cluster") as cluster:
        plan = Plan(SEED, seconds=240, kinds=("upsert-maximum",))
        nemesis = Nemesis(plan, tmp_path, duck, spark, cluster, lakes=rest_lakes(seaweedfs))
        tally = nemesis.run()
    print(report(nemesis))
    assert tally.kills["an executor"] >= 2
