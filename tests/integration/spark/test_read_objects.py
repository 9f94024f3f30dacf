"""calve.read over a real S3, in a session without any file system of Hadoop's for it.

Files are read by pyarrow in Spark's workers, with the logins that the catalog has or vends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import calve
from calve.runtime.spark.native import Hadoop
from calve.store import NO_ACCESS
from tests.support.both import same_everywhere, same_rows
from tests.support.readers import differences, rows_of
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.seaweedfs import SECRET, SeaweedFS
from tests.support.spark import has_iceberg
from tests.support.variants import VARIANTS
from tests.support.workload import Variant

pytestmark = pytest.mark.spark

NAMESPACE = "read_objects"
BY_NAME = {variant.name: variant for variant in VARIANTS}
SHAPES = (
    replace(BY_NAME["scoped by bucket"], epochs=3),
    replace(BY_NAME["nullable key, global"], epochs=3),
    replace(BY_NAME["evolved key"], epochs=3),
    replace(BY_NAME["all types"], epochs=2),
)


def test_the_session_has_no_file_system_for_s3(spark: Any):
    """Otherwise the rest would tell nothing of pyarrow."""
    hadoop = Hadoop(spark, NO_ACCESS)
    assert hadoop.path("s3://bucket/key.parquet") is None
    assert hadoop.path("file:///folder/key.parquet") == "file:///folder/key.parquet"


@pytest.mark.parametrize("variant", SHAPES, ids=lambda variant: variant.name)
def test_every_snapshot_on_s3_shows_its_truth(seaweedfs: SeaweedFS, spark: Any, variant: Variant):
    table = "".join(letter if letter.isalnum() else "_" for letter in variant.name)
    options = {**seaweedfs.oauth2(), "namespace": NAMESPACE, "table.name": table, **variant.sink_options()}
    ledger = variant.ledger()
    truths: list[pa.Table] = []
    ids: list[int | None] = []
    with calve.IcebergSink.from_options(options) as sink:
        for _ in range(variant.epochs):
            epoch = ledger.next_epoch()
            sink.begin_epoch(epoch.number)
            sink.write_batch(epoch.changes)
            ids.append(sink.commit_epoch(epoch.number).snapshot_id)
            truths.append(epoch.truth)
    catalog = {
        "type": "rest",
        "uri": seaweedfs.rest_uri,
        "warehouse": seaweedfs.warehouse,
        "credential": options["catalog.prop.credential"],
        **seaweedfs.storage(),
    }
    for snapshot_id, truth in zip(ids, truths, strict=True):
        frame = calve.read(spark, f"objects.{NAMESPACE}.{table}", at=snapshot_id, catalog=catalog)
        seen = rows_of(frame.toArrow().select(truth.schema.names), truth.schema)
        wanted = rows_of(truth, truth.schema)
        assert seen == wanted, differences(seen, wanted)
    last = calve.read(spark, f"objects.{NAMESPACE}.{table}", catalog=catalog)
    plan = last._jdf.queryExecution().toString()
    assert "MapInArrow" in plan
    assert "Scan parquet" not in plan
    assert SECRET not in plan


@pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this release of Spark")
@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_places_are_left_out_where_files_are_read_by_pyarrow(
    iceberg_rest_s3: IcebergRest, spark: Any, version: int
):
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": iceberg_rest_s3.uri,
        ".cache-enabled": "false",
        ".s3.endpoint": str(iceberg_rest_s3.options()["storage.s3.endpoint"]),
        ".s3.path-style-access": "true",
        ".client.region": str(iceberg_rest_s3.options()["storage.s3.region"]),
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.vending{name}", value)
    table = f"vending.{NAMESPACE}.v{version}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS vending.{NAMESPACE}")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, part BIGINT, name STRING) USING iceberg PARTITIONED BY (part) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read', "
        "'write.delete.granularity'='partition')"
    )
    for first in (0, 50):
        spark.sql(f"INSERT INTO {table} SELECT id, id % 2, concat('n', id) FROM range({first}, {first + 50})")
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    spark.sql(f"DELETE FROM {table} WHERE id BETWEEN 20 AND 30")
    assert len(same_everywhere(spark, table)) == 100 - 15 - 9
    assert len(same_rows(spark, table, where="name = 'n1'")) == 1
