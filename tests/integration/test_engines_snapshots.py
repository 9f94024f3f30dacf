"""Engines that we did not write read every snapshot of tables that the sink made (P1).

The table of a variant is made once a process; each engine is then asked for each of its snapshots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import calve
from tests.support.frames import CalveReader
from tests.support.lake import NAMESPACE, Lake, Published, pour
from tests.support.readers import (
    DuckReader,
    Reader,
    SailReader,
    SparkReader,
    differences,
    read_snapshot,
    rows_of,
)
from tests.support.variants import ON_MAIN, UNPARTITIONED, VARIANTS
from tests.support.workload import INSERT_WORDS, OP, Column, Variant, table_of

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


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
@pytest.mark.parametrize(
    "variant",
    [one if one is UNPARTITIONED else pytest.param(one, marks=pytest.mark.nightly) for one in VARIANTS],
    ids=lambda variant: variant.name,
    indirect=True,
    scope="module",
)
def test_spark_needs_no_catalog_to_see_the_truth(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    if "spark" in variant.blind:
        pytest.skip(variant.blind["spark"])
    check_every_snapshot(SparkReader(spark, by_metadata=True), lake, table, published[-1:])


@pytest.mark.spark
def test_calve_reads_what_spark_sees(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    """The truth of the last epoch, which has deletes of all others, in the types of Iceberg's own runtime."""
    check_every_snapshot(CalveReader(spark), lake, table, published[-1:])
    if variant.name != "times of day":  # which Iceberg's runtime cannot read
        theirs = spark.sql(f"SELECT * FROM {lake.full_name(table)} VERSION AS OF {published[-1].snapshot_id}")
        ours = calve.read(spark, lake.full_name(table), at=published[-1].snapshot_id)
        assert ours.schema.simpleString() == theirs.schema.simpleString()


@pytest.mark.spark
@pytest.mark.nightly
def test_calve_reads_the_truth_of_every_epoch_in_its_snapshot(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    check_every_snapshot(CalveReader(spark), lake, table, published)


@pytest.mark.spark
@pytest.mark.nightly
def test_calve_reads_the_same_by_pyarrow(
    lake: Lake, table: str, variant: Variant, published: list[Published], spark: Any
):
    """A table that was ever told of files without field ids is none for Spark's own reader."""
    with lake.catalog() as catalog:
        loaded = catalog.load_table((NAMESPACE, table))
        loaded.transaction().set_properties({"schema.name-mapping.default": "[]"}).commit_transaction()
        plan = calve.read(spark, lake.full_name(table))._jdf.queryExecution().toString()
        assert "MapInArrow" in plan
        check_every_snapshot(CalveReader(spark), lake, table, published)
        loaded.refresh().transaction().remove_properties("schema.name-mapping.default").commit_transaction()


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


@pytest.fixture(scope="module")
def claimed(lake: Lake) -> tuple[str, list[Published]]:
    """A table whose main is at a claim, which is empty and on top of the last epoch."""
    *_, last = pour(lake, "claimed", ON_MAIN)
    lake.sink("claimed", ON_MAIN).open().close()
    claim = lake.head("claimed")
    assert claim.parent_snapshot_id == last.snapshot_id
    return "claimed", [replace(last, snapshot_id=claim.snapshot_id)]


@pytest.mark.spark
def test_spark_reads_a_claim_on_main_as_the_rows_below_it(
    lake: Lake, claimed: tuple[str, list[Published]], spark: Any
):
    check_every_snapshot(SparkReader(spark), lake, *claimed)


@pytest.mark.engines
def test_sail_and_duckdb_read_a_claim_on_main_as_the_rows_below_it(
    lake: Lake, claimed: tuple[str, list[Published]], sail: SailReader, duckdb: DuckReader
):
    for reader in (sail, duckdb):
        check_every_snapshot(reader, lake, *claimed)


@pytest.mark.engines
def test_every_reader_sees_a_table_that_is_wrong(lake: Lake, sail: SailReader, duckdb: DuckReader):
    """The comparison itself is compared: a source that breaks its promise leaves two rows of a key."""
    liar = replace(UNPARTITIONED, options={"inserts.are.new": "true"})
    rows = [{"id": 1, "name": name} for name in ("old", "new")]
    fields = [column.sent_field() for column in (*liar.columns(1), Column(OP, pa.string(), INSERT_WORDS))]
    with lake.sink("wrong", liar) as sink:
        for number, row in enumerate(rows, start=1):
            sink.begin_epoch(number)
            sink.write_batch(table_of([{**row, OP: "insert"}], fields))
            sink.commit_epoch(number)
    truth = table_of(rows[1:], [column.stored_field() for column in liar.columns(1)])
    published = [Published(2, lake.head("wrong").snapshot_id, truth)]
    for reader in (sail, duckdb):
        with pytest.raises(AssertionError, match="2 rows, 1 expected"):
            check_every_snapshot(reader, lake, "wrong", published)
