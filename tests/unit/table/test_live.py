"""The files of a snapshot, as PyIceberg reads the same manifests."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestamptzType

from calve.table.live import FileContent, live_files

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", DateType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "at", TimestamptzType()),
    NestedField(5, "name", StringType()),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"),
    PartitionField(3, 1001, IdentityTransform(), "price"),
    PartitionField(4, 1002, DayTransform(), "at_day"),
    PartitionField(5, 1003, VoidTransform(), "name_void"),
    PartitionField(1, 1004, BucketTransform(4), "id_bucket"),
)


@pytest.mark.parametrize("version", ["1", "2"])
def test_files_are_those_that_pyiceberg_sees(tmp_path: Any, version: str):
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=SPEC, properties={"format-version": version})
    for number in range(2):
        rows = {
            "id": [number],
            "day": [date(1969, 12, 31)],
            "price": [Decimal("-1.50")],
            "at": [datetime(2024, 2, 29, 12, tzinfo=UTC)],
            "name": ["x"],
        }
        table.append(pa.Table.from_pydict(rows, schema=SCHEMA.as_arrow()))
    table.delete("id = 1")
    catalog.close()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    theirs = [
        (entry, manifest)
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    ours = {file.path: file for file in live_files(table.io, table.metadata, snapshot, bounds=True)}
    assert len(ours) == len(theirs) == 1
    for entry, manifest in theirs:
        file, said = ours[entry.data_file.file_path], entry.data_file
        assert file.content is FileContent.DATA
        assert (file.format, file.records, file.size) == (
            "PARQUET",
            said.record_count,
            said.file_size_in_bytes,
        )
        assert file.sequence == (entry.sequence_number or 0)
        assert file.spec_id == manifest.partition_spec_id
        assert (file.lower, file.upper, file.nulls) == (
            said.lower_bounds,
            said.upper_bounds,
            said.null_value_counts,
        )
        # days since 1970, the decimal without its point, nothing of a void
        assert file.scope[1] == (-1, -150, 19782, None, said.partition[4])


def test_a_uuid_and_a_float_of_a_partition_can_be_compared():
    from calve.table.live import _comparable

    nan = float("nan")
    assert _comparable(nan, False) == _comparable(float("nan"), False)
    assert _comparable(0.0, False) != _comparable(-0.0, False)
    assert _comparable(b"\xff\x6a", True) == _comparable(b"\xff\xff\xff\x6a", True) == -150
    assert _comparable(UUID(int=1).bytes, False) == UUID(int=1).bytes
