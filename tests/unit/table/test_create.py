"""Tables are made as asked for, or adopted if they are that; never changed, never taken over in part."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError
from pyiceberg.partitioning import PartitionField as SpecField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.sorting import SortField as OrderField
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform

from calve.model.errors import (
    AccessDenied,
    BadKey,
    BadName,
    BadPartition,
    ConfigError,
    SchemaMismatch,
    TableDiffers,
)
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.table.create import Wanted, check_table, create_table, differences, open_table
from calve.table.layout import from_sort_order, from_spec
from calve.table.schema import key_of, to_iceberg

NAME = ("sales", "orders")
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("region", pa.string())])
DAY = PartitionField("ts", Transform(TransformKind.DAY))
BUCKET = PartitionField("id", Transform(TransformKind.BUCKET, 16))
REGION = PartitionField("region", Transform(TransformKind.VOID))
BY_TS = SortField("ts", descending=True, nulls_first=False)
FULL = Wanted(SCHEMA, ("id",), partition=(DAY, BUCKET), sort=(BY_TS,), properties={"owner": "ana"})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    # A path without a scheme, as users give it.
    return SqlCatalog("calve", uri="sqlite:///:memory:", warehouse=str(tmp_path / "warehouse"))


def test_a_table_is_created_as_asked_for_and_reads_back_so(catalog: Catalog, tmp_path: Path) -> None:
    created = create_table(catalog, NAME, FULL)
    table = catalog.load_table(NAME)
    assert table.metadata == created.metadata
    assert table.metadata.format_version == 2
    assert table.schema() == to_iceberg(SCHEMA, ("id",))
    assert key_of(table.schema()) == {"id"}
    assert from_spec(table.spec(), table.schema()) == (DAY, BUCKET)
    assert [field.name for field in table.spec().fields] == ["ts_day", "id_bucket"]
    assert from_sort_order(table.sort_order(), table.schema()) == (BY_TS,)
    assert table.properties == {"owner": "ana"}
    assert table.location() == f"file://{tmp_path}/warehouse/sales/orders"
    assert table.metadata_location.startswith(f"file://{tmp_path}/warehouse/sales/orders/metadata/")
    assert dict(FULL.properties) == {"owner": "ana"}


def test_namespaces_are_made_from_the_top_where_they_are_missing(catalog: Catalog) -> None:
    create_table(catalog, ("a", "b", "c", "t"), Wanted(SCHEMA))
    assert catalog.namespace_exists(("a", "b", "c"))
    create_table(catalog, ("a", "b", "c", "u"), Wanted(SCHEMA))
    assert len(catalog.list_tables(("a", "b", "c"))) == 2


def test_a_namespace_with_a_place_of_its_own_keeps_its_tables_there(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace("sales", {"location": f"{tmp_path}/elsewhere"})
    assert create_table(catalog, NAME, Wanted(SCHEMA)).location() == f"file://{tmp_path}/elsewhere/orders"


def test_a_location_is_followed_and_gets_its_scheme(catalog: Catalog, tmp_path: Path) -> None:
    wanted = Wanted(SCHEMA, location=f"{tmp_path}/here/")
    assert create_table(catalog, NAME, wanted).location() == f"file://{tmp_path}/here"
    check_table(catalog.load_table(NAME), wanted)


def test_a_relative_warehouse_is_made_absolute(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = SqlCatalog("calve", uri="sqlite:///:memory:", warehouse="./warehouse")
    assert (
        create_table(catalog, NAME, Wanted(SCHEMA)).location() == f"file://{tmp_path}/warehouse/sales/orders"
    )


def test_a_warehouse_that_is_not_local_is_left_to_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calve.table.create.reach", lambda *_: None)  # as if there were a store
    asked: list[str | None] = []

    class Asked(SqlCatalog):
        def create_table(self, identifier, schema, location=None, *_: object, **__: object) -> NoReturn:
            asked.append(location)
            raise ForbiddenError("no")

    catalog = Asked("calve", uri="sqlite:///:memory:", warehouse="s3://bucket/warehouse")
    with pytest.raises(AccessDenied):
        create_table(catalog, NAME, Wanted(SCHEMA))
    assert asked == [None]


@pytest.mark.parametrize(
    "wanted, error",
    [
        (Wanted(pa.schema([("a", pa.duration("s"))])), SchemaMismatch),
        (Wanted(pa.schema([("", pa.int32())])), BadName),
        (Wanted(SCHEMA, ("nope",)), BadKey),
        (Wanted(SCHEMA, partition=(PartitionField("region", Transform(TransformKind.DAY)),)), BadPartition),
        (Wanted(SCHEMA, sort=(SortField("nope"),)), BadPartition),
        (Wanted(SCHEMA, properties={"format-version": "3"}), ConfigError),
        (Wanted(SCHEMA, location="hdfs://bucket/t"), ConfigError),
        (Wanted(SCHEMA, properties={"write.data.path": "hdfs://bucket/t"}), ConfigError),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_created(
    catalog: Catalog, wanted: Wanted, error
) -> None:
    with pytest.raises(error):
        create_table(catalog, NAME, wanted)
    assert catalog.list_namespaces() == []


def test_case_7_a_table_that_appeared_in_the_same_moment_is_adopted(catalog: Catalog) -> None:
    first = create_table(catalog, NAME, FULL)
    second = create_table(catalog, NAME, FULL)
    assert second.metadata.table_uuid == first.metadata.table_uuid


def test_case_7_a_table_that_appeared_and_is_another_is_refused(catalog: Catalog) -> None:
    create_table(catalog, NAME, Wanted(SCHEMA))
    with pytest.raises(TableDiffers):
        create_table(catalog, NAME, FULL)


def test_case_7_opening_again_after_a_crash_gives_the_same_table(catalog: Catalog) -> None:
    first = open_table(catalog, NAME, FULL)
    assert open_table(catalog, NAME, FULL).metadata.table_uuid == first.metadata.table_uuid


@pytest.mark.parametrize("refusal", [ForbiddenError, UnauthorizedError])
def test_case_27_a_catalog_that_denies_the_right_is_said_so(tmp_path: Path, refusal) -> None:
    class Denying(SqlCatalog):
        def create_namespace(self, *_: object, **__: object) -> None:
            raise refusal("no")

    catalog = Denying("calve", uri="sqlite:///:memory:", warehouse=str(tmp_path))
    with pytest.raises(AccessDenied, match=r"sales\.orders"):
        create_table(catalog, NAME, FULL)


def test_a_namespace_that_appeared_in_the_same_moment_is_no_error(tmp_path: Path) -> None:
    class Blind(SqlCatalog):
        looked = False

        def namespace_exists(self, identifier) -> bool:
            # The first look is too early: the namespace is there a moment later.
            if not self.looked:
                self.looked = True
                return False
            return super().namespace_exists(identifier)

    catalog = Blind("calve", uri="sqlite:///:memory:", warehouse=str(tmp_path))
    SqlCatalog.create_namespace(catalog, "sales")
    catalog.looked = False
    assert create_table(catalog, NAME, FULL).name() == NAME


# ------------------------------------------------------------------------------ adopting


def test_what_was_not_asked_for_is_taken_from_the_table(catalog: Catalog) -> None:
    create_table(catalog, NAME, FULL)
    check_table(catalog.load_table(NAME), Wanted(SCHEMA, ("id",)))
    check_table(catalog.load_table(NAME), Wanted(SCHEMA))


def test_all_differences_are_listed_with_found_and_wanted(catalog: Catalog, tmp_path: Path) -> None:
    create_table(catalog, NAME, FULL)
    wanted = Wanted(SCHEMA, ("region",), partition=(DAY,), sort=(), location=f"{tmp_path}/other")
    with pytest.raises(TableDiffers) as refused:
        check_table(catalog.load_table(NAME), wanted)
    message = refused.value.message
    assert "sales.orders" in message
    assert "key: found id, wanted region" in message
    assert "partition: found day(ts), bucket(16, id), wanted day(ts)" in message
    assert "sort order: found ts desc nulls last, wanted none" in message
    assert (
        f"location: found file://{tmp_path}/warehouse/sales/orders, wanted file://{tmp_path}/other" in message
    )
    assert refused.value.hint.count(". ") >= 3


def test_neither_order_nor_void_fields_make_another_partition(catalog: Catalog) -> None:
    table = create_table(catalog, NAME, Wanted(SCHEMA, partition=(DAY, BUCKET, REGION)))
    check_table(table, Wanted(SCHEMA, partition=(BUCKET, DAY)))


def test_an_unpartitioned_table_that_is_wanted_is_not_a_partitioned_one(catalog: Catalog) -> None:
    table = create_table(catalog, NAME, Wanted(SCHEMA, partition=(DAY,)))
    (difference,) = differences(table.metadata, Wanted(SCHEMA, partition=()))
    assert str(difference) == "partition: found day(ts), wanted none"


def test_a_key_that_the_table_does_not_have_is_a_difference(catalog: Catalog) -> None:
    table = create_table(catalog, NAME, Wanted(SCHEMA))
    (difference,) = differences(table.metadata, Wanted(SCHEMA, ("id",)))
    assert str(difference) == "key: found none, wanted id"
    assert "SET IDENTIFIER FIELDS id" in difference.hint
    (missing,) = differences(table.metadata, Wanted(SCHEMA, ("idd",)))
    assert "'idd' is not among the columns" in str(missing)
    assert missing.hint == "Did you mean 'id'?"


def test_keys_that_may_be_null_need_no_identifier_fields(catalog: Catalog) -> None:
    wanted = Wanted(SCHEMA, ("id",), null_keys=True)
    check_table(create_table(catalog, NAME, wanted), wanted)


def test_versions_1_and_3_are_refused_by_name(catalog: Catalog) -> None:
    catalog.create_namespace("sales")
    old = catalog.create_table(NAME, to_iceberg(SCHEMA), properties={"format-version": "1"})
    (difference,) = differences(old.metadata, Wanted(SCHEMA))
    assert str(difference) == "format version: found 1, wanted 2"
    assert "'format-version'" in difference.hint
    table = create_table(catalog, ("sales", "new"), Wanted(SCHEMA))
    fields = {**table.metadata.model_dump(by_alias=True), "format-version": 3, "next-row-id": 0}
    (difference,) = differences(TableMetadataV3.model_validate(fields), Wanted(SCHEMA))
    assert str(difference) == "format version: found 3, wanted 2"
    assert "PyIceberg" in difference.hint


def test_a_foreign_partition_that_cannot_be_written_is_a_difference_even_unasked(catalog: Catalog) -> None:
    columns = pa.schema([("id", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    schema = to_iceberg(columns)
    spec = PartitionSpec(SpecField(schema.find_field("a.b").field_id, 1000, IdentityTransform(), "inner"))
    catalog.create_namespace("sales")
    table = catalog.create_table(NAME, schema, location=None, partition_spec=spec)
    (difference,) = differences(table.metadata, Wanted(columns))
    assert "nested field 'a.b'" in difference.found


def test_a_foreign_order_that_cannot_be_followed_differs_only_from_one_that_was_asked_for(
    catalog: Catalog,
) -> None:
    catalog.create_namespace("sales")
    order = SortOrder(OrderField(1, BucketTransform(4)))
    table = catalog.create_table(NAME, to_iceberg(SCHEMA), sort_order=order)
    assert differences(table.metadata, Wanted(SCHEMA)) == ()
    (difference,) = differences(table.metadata, Wanted(SCHEMA, sort=(BY_TS,)))
    assert difference.what == "sort order"
    assert "bucket[4]" in difference.found


def test_case_7_a_namespace_that_another_process_inserts_after_our_look_is_no_error(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg's SQL catalog looks whether a namespace is there, then inserts it: two may look at once."""
    looked = []

    def blind_once(self: SqlCatalog, identifier: tuple[str, ...]) -> bool:
        looked.append(identifier)
        return False if len(looked) <= 2 else real(self, identifier)

    real = SqlCatalog.namespace_exists
    catalog.create_namespace(NAME[:1])
    monkeypatch.setattr(SqlCatalog, "namespace_exists", blind_once)
    assert create_table(catalog, NAME, FULL).name() == NAME
