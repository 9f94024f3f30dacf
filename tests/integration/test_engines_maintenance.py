"""Spark's own maintenance on a table of ours; the sink goes on after each (P6).

    sink: epochs ──▶ Spark: an action, once between and once inside an epoch ──▶ sink: epochs, also reopened

After an action the table shows the same rows, the sink's progress is what it was, and every later snapshot
is right (P1).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import calve
from calve.model.progress import tag_name
from calve.runtime.health import Health
from calve.store import local_path
from tests.support.lake import NAMESPACE, Lake
from tests.support.pairs import pairs
from tests.support.scene import Scene, call
from tests.support.variants import GLOBAL, ON_MAIN, SCOPED, UNPARTITIONED
from tests.support.workload import Variant

pytestmark = pytest.mark.spark

SHAPES = (GLOBAL, UNPARTITIONED, SCOPED, ON_MAIN)
DAY_SECONDS = 24 * 3600

Action = Callable[[Any, str], None]


def rewrite_all_files(spark: Any, table: str) -> None:
    options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    call(spark, "rewrite_data_files", table, f"options => {options}")


def rewrite_files_with_deletes(spark: Any, table: str) -> None:
    call(spark, "rewrite_data_files", table, "options => map('delete-file-threshold', '1')")


def rewrite_manifests(spark: Any, table: str) -> None:
    call(spark, "rewrite_manifests", table)


def expire_all_but_the_last(spark: Any, table: str) -> None:
    # A minute ahead: a snapshot that was committed just now is old, too.
    moment = datetime.now(UTC) + timedelta(minutes=1)
    call(spark, "expire_snapshots", table, f"older_than => TIMESTAMP '{moment:%F %T}'", "retain_last => 1")


ACTIONS: tuple[Action, ...] = (
    rewrite_all_files,
    rewrite_files_with_deletes,
    rewrite_manifests,
    expire_all_but_the_last,
)


@pytest.fixture
def scene(lake: Lake, spark: Any, table_name: str, request: pytest.FixtureRequest) -> Scene:
    return Scene(lake, spark, table_name, request.param)


@pytest.fixture
def plain_scene(lake: Lake, spark: Any, table_name: str) -> Scene:
    return Scene(lake, spark, table_name, GLOBAL)


@pytest.mark.parametrize(
    "scene, act",
    pairs({shape.name: shape for shape in SHAPES}, {act.__name__: act for act in ACTIONS}),
    indirect=["scene"],
)
def test_cases_38_and_40_the_sink_goes_on_after_maintenance_and_all_later_snapshots_are_right(
    scene: Scene, act: Action
):
    with scene.sink() as sink:
        scene.publish(sink, 3)
        before = scene.lake.progress(scene.table)
        act(scene.spark, scene.table)
        assert scene.lake.progress(scene.table) == before
        scene.check_main()
        scene.publish(sink)
        scene.publish_around(sink, lambda: act(scene.spark, scene.table))
    act(scene.spark, scene.table)
    with scene.sink() as sink:
        assert sink.frontier() == scene.ledger.number + 1
        assert not sink.begin_epoch(scene.ledger.number)
        sink.commit_epoch(scene.ledger.number)
        scene.publish(sink, 2)
    scene.check(last=2)
    scene.check_main()


def test_case_38_a_partial_rewrite_that_drops_global_deletes_is_reported(plain_scene: Scene):
    scene = plain_scene
    options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    with scene.sink() as sink:
        scene.publish(sink, 3)
        assert sink.health_check().health is Health.HEALTHY
        call(scene.spark, "rewrite_data_files", scene.table, options, "where => 'region = \"eu\"'")
        rewritten = scene.lake.head(scene.table).summary
        assert rewritten is not None
        assert int(rewritten["removed-equality-delete-files"] or 0) > 0
        sink.begin_epoch(100)
        sink.write_batch(scene.ledger.next_epoch().changes)
        sink.commit_epoch(100)
        assert sink.health_check().health is Health.DEGRADED
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{scene.lake.catalog_file}",
        "warehouse": scene.lake.warehouse,
    }
    (remark,) = calve.status(scene.lake.at(scene.table).name, catalog=catalog).remarks
    assert "rewrote files and removed equality deletes" in remark.words


def test_case_40_expiry_takes_old_snapshots_and_leaves_the_tag(plain_scene: Scene):
    scene = plain_scene
    with scene.sink() as sink:
        scene.publish(sink, 4)
    with scene.sink():
        pass  # a claim that no commit follows
    expire_all_but_the_last(scene.spark, scene.table)
    metadata = scene.lake.load(scene.table).metadata
    tag = metadata.refs[tag_name(f"{NAMESPACE}.{scene.table}")]
    assert {snapshot.snapshot_id for snapshot in metadata.snapshots} == {
        tag.snapshot_id,
        scene.published[-1].snapshot_id,
    }
    with scene.sink() as sink:
        scene.publish(sink)
    scene.check_main()


def test_case_65_a_table_that_forgets_old_refs_keeps_the_tag(lake: Lake, spark: Any, table_name: str):
    options = {**GLOBAL.options, "table.prop.history.expire.max-ref-age-ms": "1"}
    forgetful = Variant(GLOBAL.name, GLOBAL.stages, options, GLOBAL.key)
    scene = Scene(lake, spark, table_name, forgetful)
    with scene.sink() as sink:
        scene.publish(sink, 2)
        spark.sql(f"ALTER TABLE {lake.at(table_name).name} CREATE TAG forgotten")
        expire_all_but_the_last(spark, table_name)
        assert "forgotten" not in lake.load(table_name).metadata.refs
        scene.publish(sink)
    assert lake.progress(table_name).frontier == scene.ledger.number + 1
    scene.check_main()


def age(folder: Path) -> None:
    """Let all files of a table be three days old."""
    past = time.time() - 3 * DAY_SECONDS
    for path in folder.rglob("*"):
        os.utime(path, (past, past))


def test_case_39_an_orphan_sweep_takes_orphans_and_neither_live_files_nor_those_in_flight(plain_scene: Scene):
    scene = plain_scene
    with scene.sink() as sink:
        scene.publish(sink, 3)
        sink.begin_epoch(100)
        sink.write_batch(scene.variant.ledger().next_epoch().changes)
        sink.rollback_epoch(100)
        folder = local_path(scene.lake.load(scene.table).location())
        orphan = folder / "data" / "orphan.parquet"
        orphan.write_bytes(b"left by a killed process")
        age(folder)
        swept: list[Any] = []

        def sweep() -> None:
            swept.extend(call(scene.spark, "remove_orphan_files", scene.table, "dry_run => true"))
            assert orphan.exists()
            call(scene.spark, "remove_orphan_files", scene.table)

        scene.publish_around(sink, sweep)
        assert [Path(row[0]).name for row in swept] == [orphan.name]
        assert not orphan.exists()
        scene.publish(sink)
    scene.check()
