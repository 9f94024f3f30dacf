"""People at work on a table of ours with Spark: statements are tolerated, a rollback stops the sink.

Rows that somebody else writes, and a layout or schema that somebody else changes, are taken as they are: the
sink goes on and every snapshot is right. Only what breaks the chain of snapshots stops it (case 42).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from calve import RolledBack, TableError
from tests.support.lake import NAMESPACE, Lake
from tests.support.pairs import pairs
from tests.support.scene import Scene, call
from tests.support.variants import GLOBAL, SCOPED, UNPARTITIONED
from tests.support.workload import Column, Values

pytestmark = pytest.mark.spark

SHAPES = {variant.name: variant for variant in (UNPARTITIONED, SCOPED, GLOBAL)}
HOW = ("copy-on-write", "merge-on-read")
CHANGES = ("ADD PARTITION FIELD bucket(2, id)", "WRITE ORDERED BY id")


@pytest.fixture(params=SHAPES.values(), ids=lambda variant: variant.name)
def scene(lake: Lake, spark: Any, table_name: str, request: pytest.FixtureRequest) -> Scene:
    return Scene(lake, spark, table_name, request.param)


@pytest.fixture
def plain_scene(lake: Lake, spark: Any, table_name: str) -> Scene:
    return Scene(lake, spark, table_name, GLOBAL)


def where(scene: Scene, row: Values) -> str:
    return " AND ".join(f"t.{name} = {value!r}" for name, value in row.items() if name in scene.variant.key)


@pytest.mark.parametrize("scene, how", pairs(SHAPES, {how: how for how in HOW}), indirect=["scene"])
def test_case_41_a_users_rows_are_tolerated_and_counted_and_the_sink_still_replaces_them(
    scene: Scene, how: str
):
    name = f"lake.{NAMESPACE}.{scene.table}"
    with scene.sink() as sink:
        scene.publish(sink, 3)
        kinds = ", ".join(f"'write.{word}.mode'='{how}'" for word in ("merge", "update", "delete"))
        scene.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({kinds})")
        changed, deleted, *_ = sorted(scene.ledger.rows(), key=repr)
        new = {"id": 1000, "region": "by hand", "name": "inserted"}

        scene.spark.sql(
            f"MERGE INTO {name} t USING (SELECT 'merged' AS word) s ON {where(scene, changed)} "
            "WHEN MATCHED THEN UPDATE SET t.name = s.word"
        )
        scene.ledger.put({**changed, "name": "merged"})
        scene.spark.sql(f"DELETE FROM {name} t WHERE {where(scene, deleted)}")
        scene.ledger.remove(deleted)
        scene.spark.sql(f"INSERT INTO {name} (id, region, name) VALUES (1000, 'by hand', 'inserted')")
        scene.ledger.put(new)
        scene.check_main()

        scene.publish(sink, 2)
        assert sink.metrics().foreign_rows > 0
    with scene.sink() as sink:
        scene.publish(sink, 2)
    scene.check(last=4)


@pytest.mark.parametrize(
    "scene, change", pairs(SHAPES, {change: change for change in CHANGES}), indirect=["scene"]
)
def test_case_43_the_sink_goes_on_when_the_layout_changes_inside_an_epoch(scene: Scene, change: str):
    alter = f"ALTER TABLE lake.{NAMESPACE}.{scene.table} {change}"
    with scene.sink() as sink:
        scene.publish(sink, 2)
        scene.publish_around(sink, lambda: scene.spark.sql(alter))
        scene.publish(sink, 2)
    scene.check()


def test_case_43_a_column_that_a_user_adds_inside_an_epoch_is_null_in_rows_of_the_sink(scene: Scene):
    alter = f"ALTER TABLE lake.{NAMESPACE}.{scene.table} ADD COLUMN remark string"
    with scene.sink() as sink:
        scene.publish(sink, 2)
        scene.publish_around(sink, lambda: scene.spark.sql(alter))
        scene.publish(sink)
    with scene.sink() as sink:
        scene.publish(sink)
    added = scene.spark.sql(f"SELECT DISTINCT remark FROM lake.{NAMESPACE}.{scene.table}").collect()
    assert [row.remark for row in added] == [None]
    scene.ledger.variant = replace(
        scene.variant, stages=((*scene.variant.stages[0], Column("remark", pa.string(), ())),)
    )
    scene.check_main()


def test_case_42_a_users_rollback_stops_the_sink_with_what_to_do(scene: Scene):
    with scene.sink() as sink:
        scene.publish(sink, 3)
        first = scene.published[0].snapshot_id

        def roll_back() -> None:
            call(scene.spark, "rollback_to_snapshot", scene.table, f"snapshot_id => {first}")

        with pytest.raises(RolledBack) as stopped:
            scene.publish_around(sink, roll_back)
        assert stopped.value.hint
    with pytest.raises(RolledBack):
        scene.sink().open()
    # Neither run has moved main from where the user put it.
    assert scene.lake.head(scene.table).snapshot_id == first
    scene.published = scene.published[:1]
    scene.check()


def test_case_42_a_replaced_table_stops_the_sink(plain_scene: Scene):
    scene = plain_scene
    name = f"lake.{NAMESPACE}.{scene.table}"
    with scene.sink() as sink:
        scene.publish(sink, 2)
        anew = f"CREATE OR REPLACE TABLE {name} USING iceberg PARTITIONED BY (region) AS SELECT * FROM {name}"
        with pytest.raises(RolledBack):
            scene.publish_around(sink, lambda: scene.spark.sql(anew))
    head = scene.lake.head(scene.table).snapshot_id
    with pytest.raises(TableError):  # the new table has no key: that is said before all else
        scene.sink().open()
    assert scene.lake.head(scene.table).snapshot_id == head
