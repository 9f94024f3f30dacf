"""Engines that we did not write read every snapshot of tables that the sink made (P1).

The table of a variant is made once a process; each engine is then asked for each of its snapshots.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lake import Lake, Published, pour
from tests.support.readers import DuckReader, Reader, SailReader, SparkReader, differences, read_snapshot, rows_of
from tests.support.variants import VARIANTS
from tests.support.workload import Variant


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    return request.param


@pytest.fixture(scope="module")
def table(variant: Variant) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in variant.name)


@pytest.fixture(scope="module")
def published(lake: Lake, table: str, variant: Variant) -> list[Published]:
    """The epochs of a variant, through a sink that is closed and opened again half way."""
    return pour(lake, table, variant)


def check_every_snapshot(reader: Reader, lake: Lake, table: str, published: list[Published]) -> None:
    at = lake.at(table)
    assert len({one.snapshot_id for one in published}) == len(published)
    for one in published:
        schema = one.truth.schema
        seen, truth = read_snapshot(reader, at, one.snapshot_id, like=schema), rows_of(one.truth, schema)
        assert seen == truth, f"{reader.name}, epoch {one.epoch}: {differences(seen, truth)}"


@pytest.mark.spark
def test_spark_sees_the_truth_of_every_epoch_in_its_snapshot(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    if "spark" in variant.blind:
        pytest.skip(variant.blind["spark"])
    check_every_snapshot(SparkReader(spark), lake, table, published)


@pytest.mark.spark
def test_spark_needs_no_catalog_to_see_the_truth(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    if "spark" in variant.blind:
        pytest.skip(variant.blind["spark"])
    check_every_snapshot(SparkReader(spark, by_metadata=True), lake, table, published[-1:])


@pytest.mark.engines
def test_sail_sees_the_truth_of_every_epoch_in_its_snapshot(
    lake: Lake, table: str, variant: Variant, published: list[Published], sail: SailReader
):
    if "sail" in variant.blind:
        pytest.skip(variant.blind["sail"])
    check_every_snapshot(sail, lake, table, published)


@pytest.mark.engines
def test_duckdb_sees_the_truth_of_every_epoch_in_its_snapshot(
    lake: Lake, table: str, variant: Variant, published: list[Published], duckdb: DuckReader
):
    if "duckdb" in variant.blind:
        pytest.skip(variant.blind["duckdb"])
    check_every_snapshot(duckdb, lake, table, published)
