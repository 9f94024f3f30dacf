"""S3 Tables: a table bucket's ARN as the warehouse, requests that are signed for its region, no deletes."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.model.errors import ConfigError, StoreError
from calve.table.catalogs import open_catalog
from tests.support.http import Asked, Said, Scripted, scripted

ARN = "arn:aws:s3tables:us-east-1:111122223333:bucket/lake"
SECRET = "canary-2b61"
KEYS = {"client.access-key-id": "AKID", "client.secret-access-key": SECRET}
METADATA = new_table_metadata(
    Schema(NestedField(1, "id", LongType(), required=True)),
    UNPARTITIONED_PARTITION_SPEC,
    UNSORTED_SORT_ORDER,
    "s3://63a8e430--table-s3/metadata/00000-a.metadata.json",
)


def answer(asked: Asked) -> Said:
    if "/v1/config" in asked.path:
        return Said(200, {"defaults": {}, "overrides": {"prefix": "lake"}})
    table = {
        "metadata-location": "s3://63a8e430--table-s3/metadata/00000-a.metadata.json",
        "metadata": json.loads(METADATA.model_dump_json()),
    }
    return Said(200, table)


def opened(server: Scripted, warehouse: str = ARN, **properties: str) -> Catalog:
    config = CatalogConfig(
        type="s3table", uri=f"{server.uri}/iceberg", warehouse=warehouse, properties=KEYS | properties
    )
    return open_catalog(config)


def test_requests_are_signed_for_s3tables_in_the_default_region() -> None:
    with scripted(answer) as server:
        opened(server)
    (asked,) = server.asked
    assert "/us-east-1/s3tables/aws4_request" in (asked.login or "")
    assert "warehouse=arn%3Aaws%3As3tables" in asked.path
    assert SECRET not in str(asked)


def test_the_connections_region_is_the_one_that_is_signed_for() -> None:
    elsewhere = ARN.replace("us-east-1", "eu-west-1")
    for name in ("client.region", "aws_region"):
        with scripted(answer) as server:
            opened(server, elsewhere, **{name: "eu-west-1"})
        assert "/eu-west-1/s3tables/aws4_request" in (server.asked[0].login or "")


def test_a_bucket_in_another_region_is_refused_before_anything_is_sent() -> None:
    with scripted(answer) as server, pytest.raises(ConfigError, match="eu-west-1") as caught:
        opened(server, ARN.replace("us-east-1", "eu-west-1"))
    assert server.asked == []
    assert "client.region = eu-west-1" in caught.value.hint


@pytest.mark.parametrize("warehouse", ["lake", "arn:aws:s3:::lake", "arn:aws:s3tables", "s3://lake"])
def test_an_arn_that_is_not_one_is_refused(warehouse: str) -> None:
    with scripted(answer) as server, pytest.raises(ConfigError, match="not an ARN") as caught:
        opened(server, warehouse)
    assert server.asked == []
    assert "arn:aws:s3tables:" in caught.value.hint


def test_a_warehouse_is_needed_and_a_uri_is_not() -> None:
    options = {"namespace": "ns", "table.name": "t", "catalog.type": "s3table"}
    with pytest.raises(ConfigError, match="warehouse"):
        SinkConfig.from_options(options)
    SinkConfig.from_options({**options, "warehouse": ARN})


def test_files_go_to_the_tables_folder_and_none_is_ever_deleted() -> None:
    with scripted(answer) as server:
        table = opened(server).load_table(("ns", "t"))
        assert table.location() == "s3://63a8e430--table-s3"
        before = len(server.asked)
        with pytest.raises(StoreError, match="forbids deletes"):
            table.io.delete("s3://63a8e430--table-s3/metadata/old.metadata.json")
        assert len(server.asked) == before
